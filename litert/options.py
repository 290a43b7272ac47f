"""Options for loading and running one model; they have the same names as in `ai_edge_litert.options`.

The option groups of stock LiteRT's vendors (`QualcommOptions`, `IntelOpenVinoOptions` and their enums) are classes
of stock LiteRT, which are imported at their first use. The vendor's dispatch table gets the values that the
program sets in an option group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.cpu_kernel_mode import CpuKernelMode
from litert.cpu_options import CpuOptions
from litert.gpu_options import GpuOptions
from litert.hardware_accelerator import HardwareAccelerator

if TYPE_CHECKING:
    from ai_edge_litert.options import IntelOpenVinoOptions, QualcommOptions

    from dispatch.isolation.limits import Limits
    from litert.core.compiler_options import CompilerOptions, CustomOpInfo

__all__ = ["CpuKernelMode", "CpuOptions", "GpuOptions", "HardwareAccelerator", "Options"]

_STOCK_GROUPS = ("qualcomm", "intel_openvino")
_STOCK_NAMES = ("Qualcomm", "IntelOpenVino")
_Options = TypeVar("_Options")


class _Group(Generic[_Options]):
    """A field with a group of options, which the first access creates.

    In the constructor, the field's default is None.
    """

    def __init__(self, make: Callable[[], _Options]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _Options: ...

    def __get__(self, instance: object | None, owner: type) -> _Options | None:
        if instance is None:  # the constructor's default
            return None
        value: _Options | None = vars(instance)[self._name]
        if value is None:
            value = vars(instance)[self._name] = self._make()
        return value

    def __set__(self, instance: object, value: _Options | None) -> None:
        vars(instance)[self._name] = value


@dataclass(eq=False, repr=False)
class Options:
    """Options for loading and running one model.

    Attributes:
      hardware_accelerators: Kinds of hardware that may run the model.
      cpu_options, gpu_options, qualcomm_options, intel_openvino_options: Option groups for the CPU, the GPU, and
        two vendors that stock LiteRT supports; a group is created when it is first accessed.
      dispatch_options: Mapping from option names to values, for the vendor's dispatch table (the functions with
        which the vendor runs NPU calls).
      verify: Whether loading compares a compiled file of any size with the digest stored in the file. If a file
        has no digest of the whole file, its assets and byte code are compared with their own digests instead. By
        default, loading checks digests only for data of 16 MiB or less. With `verify`, a child process first opens
        the file with stock LiteRT's interpreter; if the interpreter crashes, loading refuses the file.
      allow_native_assets: Whether machine code in a file's assets may run in this process. The vendor's dispatch
        table gets this value as the option `allow_native_assets`.
      custom_op_infos: Custom ops and the paths of their assets, which are used if the model is compiled at load.
        This option, and the options from `soc_manufacturer` to `check_kernels` in this list, have no effect if the
        model is already compiled or does not use the NPU.
      soc_manufacturer: Vendor of the NPU to compile for; "" for the first vendor whose NPU can run an op of the
        model.
      soc_model: SoC model to compile for, which requires `soc_manufacturer`; "" for the first SoC model that the
        vendor's plugin lists.
      compiler_options: Options for vendors' compiler plugins; each name is the name of an `apply_plugin` flag.
      custom_layers: Files that describe custom layers (the user's kernels for ops), and folders of such files. A
        layer is used if the model contains the layer's op. Assets in `custom_op_infos` take precedence over these
        layers.
      asset_root: Folder that must contain all files to which assets refer; with "", an asset may refer only to
        files in or below its own folder.
      shape_bounds: Mapping from tensor names to the largest shapes of tensors with dynamic shapes. Each input with
        a dynamic shape needs an entry. Any other tensor needs an entry only if the compiler cannot derive the
        tensor's largest shape.
      check_kernels: Whether the compiler builds each kernel once, so that errors in kernels appear at compile
        time.
      dump_kernels: Folder to which the source code of each custom layer's kernel is written before the kernel is
        built; "" means that no source code is written. The folder is created if it does not exist. If the vendor
        does not support dumps of kernels, loading fails.
      enable_profiling: Whether metrics include the time of each operator that XNNPACK runs. If this is true,
        XNNPACK reads the clock at each operator, even if no metrics are collected.
      isolated: Whether the NPU's driver runs in its own process. If the driver crashes or hangs, only the current
        run fails, and the next run opens the device again. The options `build_timeout_s`, `call_timeout_s`,
        `device_memory_bytes` and `sandbox` have an effect only with `isolated`.
      build_timeout_s: Time limit in seconds for each call of a vendor function that opens, loads or builds
        something, and for the first run of each NPU call.
      call_timeout_s: Time limit in seconds for each run of an NPU call except the first run.
      device_memory_bytes: Memory limit of the driver's process, in bytes. The limit applies separately to the
        model's tensors and to the other data of the process. 0 means half of the machine's memory; any other value
        must be at least 32 MiB.
      sandbox: Mode of the driver's sandbox: `require`, `try` or `off`. In the sandbox, the driver's process can
        read only the driver's files. With `require`, loading fails if the system has no sandbox. With `try`, the
        process runs in a sandbox if the system has one. With `off`, the process runs without a sandbox. "" means
        the value of the environment variable LITERT_NPU_SANDBOX, or `try` if the variable is not set.
    """

    hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU
    cpu_options: _Group[CpuOptions] = _Group(CpuOptions)
    gpu_options: _Group[GpuOptions] = _Group(GpuOptions)
    qualcomm_options: _Group[QualcommOptions] = _Group(lambda: _stock("QualcommOptions")())
    intel_openvino_options: _Group[IntelOpenVinoOptions] = _Group(
        lambda: _stock("IntelOpenVinoOptions")()
    )
    _: KW_ONLY
    dispatch_options: Mapping[str, str] = field(default_factory=dict)
    verify: bool = False
    allow_native_assets: bool = False
    custom_op_infos: Sequence[CustomOpInfo] = ()
    soc_manufacturer: str = ""
    soc_model: str = ""
    compiler_options: Mapping[str, str] = field(default_factory=dict)
    custom_layers: Sequence[str] = ()
    asset_root: str = ""
    shape_bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    check_kernels: bool = True
    dump_kernels: str = ""
    enable_profiling: bool = False
    isolated: bool = False
    build_timeout_s: float = 30.0
    call_timeout_s: float = 10.0
    device_memory_bytes: int = 0
    sandbox: str = ""

    def __post_init__(self) -> None:
        self.dispatch_options = self.dispatch_options or {}
        self.compiler_options = self.compiler_options or {}
        self.shape_bounds = self.shape_bounds or {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @classmethod
    def create(cls) -> Options:
        """Creates options with their default values."""
        return cls()

    def all_dispatch_options(self) -> dict[str, str]:
        """Returns all options for the dispatch table; a field of an option group is named `<group>.<field>`."""
        found = {"allow_native_assets": "true"} if self.allow_native_assets else {}
        for group, options in self._stock_groups().items():
            found.update(_dispatch_options(group, options))
        return {**found, **self.dispatch_options}

    def device_limits(self) -> Limits:
        """Returns the time and memory limits for a device whose driver runs in its own process.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a limit is out of range, or if the sandbox mode is unknown.
        """
        # here: few programs need these modules
        from dispatch.isolation.limits import LEAST_MEMORY_BYTES, Limits
        from litert.host.sandbox import chosen_mode, parse_mode

        limits = (self.build_timeout_s, self.call_timeout_s, self.device_memory_bytes)
        if min(limits[:2]) <= 0 or limits[2] < 0:
            wrong = [
                f"{name} is {limit:g}, but must be greater than 0"
                for name, limit in zip(("build_timeout_s", "call_timeout_s"), limits, strict=False)
                if limit <= 0
            ]
            if limits[2] < 0:
                wrong.append(f"device_memory_bytes is {limits[2]}, but must be 0 or more")
            raise LiteRtError(Status.INVALID_ARGUMENT, "; ".join(wrong), "Options")
        if 0 < self.device_memory_bytes < LEAST_MEMORY_BYTES:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the device's process cannot start with a memory limit of {self.device_memory_bytes} bytes; "
                f"the smallest limit is {LEAST_MEMORY_BYTES} bytes ({LEAST_MEMORY_BYTES >> 20} MiB)",
                "Options.device_memory_bytes, --device_memory",
                "Increase the limit; 0 means half of the machine's memory.",
            )
        sandbox = parse_mode(self.sandbox, "Options.sandbox") if self.sandbox else chosen_mode()
        return Limits(*limits, sandbox)

    def stock_compiler_flags(self) -> dict[str, dict[str, str]]:
        """Converts stock LiteRT's option groups to `apply_plugin` flags.

        The result contains a mapping from flags to values for each group. Fields with their default values are
        omitted.
        """
        groups = self._stock_groups()
        return {group: _group_flags(group, options) for group, options in groups.items()}

    def for_compiler(self) -> CompilerOptions:
        """Returns options for compiling the model at load; `vendor_options` contains all of `compiler_options`.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if no vendor can accept the options; for example, if an op has two
            assets.
        """
        # Here: most models are compiled already.
        from litert.core.compiler_options import CompilerOptions
        from litert.core.option import Goes, options_of

        declared = [o.field for o in options_of(CompilerOptions) if Goes.LOAD in o.goes]
        given = {name: getattr(self, name) for name in declared}
        return CompilerOptions(**given, vendor_options=self.compiler_options)

    @property
    def asks_to_compile(self) -> bool:
        """Whether the program has set an option that asks to compile the model, such as `soc_manufacturer`.

        With such an option, loading raises the errors of the compilation; otherwise, loading only logs these
        errors.
        """
        return bool(
            self.soc_manufacturer
            or self.custom_op_infos
            or self.custom_layers
            or self.shape_bounds
            or self.compiler_options
        )

    def _stock_groups(self) -> dict[str, Any]:
        """Returns the groups that exist, by the names of their vendors' folders in stock LiteRT's wheel."""
        groups = {name: vars(self)[f"_{name}_options"] for name in _STOCK_GROUPS}
        return {name: options for name, options in groups.items() if options is not None}


def _set_fields(options: Any) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a stock option group that differ from the defaults, with their values."""
    defaults = type(options)()
    for member in fields(options):
        value = getattr(options, member.name)
        if value != getattr(defaults, member.name):
            yield member.name, value


def _dispatch_options(group: str, options: Any) -> dict[str, str]:
    """Returns the fields that are set in a group as `<group>.<field>`, with enums and flags as numbers."""
    found = {}
    for field_name, value in _set_fields(options):
        name = f"{group}.{field_name}"
        if isinstance(value, Mapping):
            found.update({f"{name}.{key}": str(item) for key, item in value.items()})
        elif isinstance(value, int):
            found[name] = str(int(value))
        elif isinstance(value, str):
            found[name] = value
        else:
            found[name] = ",".join(map(str, value))
    return found


def _group_flags(group: str, options: Any) -> dict[str, str]:
    """Returns the fields that are set in a group as texts, by the names of the flags: `intel_openvino_...`."""
    from litert.abi.vendor_flags import FLAGS_OF_FIELDS  # here: few programs use option groups

    names = {f"{group}_{name}": value for name, value in _set_fields(options)}
    return {FLAGS_OF_FIELDS.get(name, name): flag_text(value) for name, value in names.items()}


def flag_text(value: Any) -> str:
    """Returns the text that stands for an option's value in a flag."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(map(str, value))


def _stock(name: str) -> Any:
    from ai_edge_litert import options

    return getattr(options, name)


def __getattr__(name: str) -> Any:
    if name.startswith(_STOCK_NAMES):
        return _stock(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
