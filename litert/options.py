"""How one model is loaded; names are those of `ai_edge_litert.options`.

The option groups of stock's vendors (`QualcommOptions`, `IntelOpenVinoOptions` and their enums) are stock's own
classes, imported when they are asked for; what is set in them goes to the vendor's dispatch table.
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
    """A field that holds a group of options, made when it is first asked for; None in the constructor."""

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
    """Options of one model.

    Attributes:
      hardware_accelerators: what may run it.
      cpu_options, gpu_options, qualcomm_options, intel_openvino_options: groups, each made when first asked for.
      dispatch_options: for the vendor's dispatch table, by name.
      verify: whether a compiled file is compared with its digests at load whatever its size: all of it, or assets
        and byte code where it has none of the whole; and opened in a child process first, so that a file that
        crashes stock's interpreter is refused. By default only what is 16 MiB or less is compared.
      allow_native_assets: whether machine code in a file's assets may run in this process; the vendor's table gets
        it as the option `allow_native_assets`.
      custom_op_infos: the assets of a model that is compiled when it is loaded; this and what follows is of no
        consequence for one that is compiled, or that the NPU is not asked for.
      soc_manufacturer: whose NPU to compile for; "" for the first vendor that takes an op.
      soc_model: which of its NPUs; "" for its plugin's first.
      compiler_options: for vendors' compiler plugins, by the names that their flags of `apply_plugin` have.
      custom_layers: files and folders of layers for any model; `custom_op_infos` go before them.
      asset_root: the folder that files named by assets may lie in; "" for each asset's own.
      shape_bounds: the largest shapes of tensors of dynamic shape, by name: of inputs, and of those for which
        no bound is derived.
      check_kernels: whether each kernel is built once when it is compiled, so that its errors show then.
      dump_kernels: a folder, made if it is not there, where each kernel of a custom layer in the NPU calls is
        written as its compiler gets it, before it is built; "" for none. A vendor that does not show them is an
        error.
      enable_profiling: whether metrics tell apart the operators that XNNPACK runs. Each of its runs then reads the
        clock at each operator, whether somebody collects metrics or not.
      isolated: whether the NPU's driver runs in a process of its own, where a crash or a hang only fails a run;
        the model opens the device again at the next. What follows is of consequence only then.
      build_timeout_s: seconds for each of the vendor's functions that open, load or build something, and for the
        first run of each NPU call.
      call_timeout_s: seconds for each other run of an NPU call.
      device_memory_bytes: how much data that process may have in memory, and how much for tensors; 0 for half of
        the machine's memory.
      sandbox: whether that process is in a sandbox, where it reads no file but the driver's: `require`, `try`
        where the system has one, or `off`; "" for what the variable LITERT_NPU_SANDBOX says, or `try`.
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
        """The defaults."""
        return cls()

    def all_dispatch_options(self) -> dict[str, str]:
        """`dispatch_options`, `allow_native_assets`, and what is set in stock's groups as `<group>.<field>`."""
        found = {"allow_native_assets": "true"} if self.allow_native_assets else {}
        for group, options in self._stock_groups().items():
            found.update(_dispatch_options(group, options))
        return {**found, **self.dispatch_options}

    def device_limits(self) -> Limits:
        """Those of a device in a process of its own.

        Raises:
          LiteRtError: INVALID_ARGUMENT.
        """
        from dispatch.isolation.limits import Limits  # here: few programs ask for it
        from litert.host.sandbox import chosen_mode, parse_mode

        limits = (self.build_timeout_s, self.call_timeout_s, self.device_memory_bytes)
        if min(limits[:2]) <= 0 or limits[2] < 0:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "build_timeout_s and call_timeout_s must be more than 0, and device_memory_bytes 0 or more",
                "Options",
            )
        sandbox = parse_mode(self.sandbox, "Options.sandbox") if self.sandbox else chosen_mode()
        return Limits(*limits, sandbox)

    def stock_compiler_flags(self) -> dict[str, dict[str, str]]:
        """What is set in stock's groups as flags of `apply_plugin`, by group."""
        groups = self._stock_groups()
        return {group: _group_flags(group, options) for group, options in groups.items()}

    def for_compiler(self) -> CompilerOptions:
        """What a plugin is told that compiles the model when it is loaded; `vendor_options` are of all vendors.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, for options that no compiler takes.
        """
        # Here: most models are compiled.
        from litert.core.compiler_options import CompilerOptions
        from litert.core.option import Goes, options_of

        declared = [o.field for o in options_of(CompilerOptions) if Goes.LOAD in o.goes]
        given = {name: getattr(self, name) for name in declared}
        return CompilerOptions(**given, vendor_options=self.compiler_options)

    @property
    def asks_to_compile(self) -> bool:
        """Whether the program says what to compile for or with, so that it must know what goes wrong."""
        return bool(
            self.soc_manufacturer
            or self.custom_op_infos
            or self.custom_layers
            or self.shape_bounds
            or self.compiler_options
        )

    def _stock_groups(self) -> dict[str, Any]:
        """By the names of their vendors' folders in the wheel."""
        groups = {name: vars(self)[f"_{name}_options"] for name in _STOCK_GROUPS}
        return {name: options for name, options in groups.items() if options is not None}


def _set_fields(options: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a group of stock's that differ from its defaults, with their values."""
    defaults = type(options)()
    for member in fields(options):
        value = getattr(options, member.name)
        if value != getattr(defaults, member.name):
            yield member.name, value


def _dispatch_options(group: str, options: Any) -> dict[str, str]:
    """What is set in a group, as `<group>.<field>`; enums and flags as numbers."""
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
    """What is set in a group, as texts by the names of the flags: `intel_openvino_...`."""
    from litert.abi.vendor_flags import FLAGS_OF_FIELDS  # here: few programs have groups

    names = {f"{group}_{name}": value for name, value in _set_fields(options)}
    return {FLAGS_OF_FIELDS.get(name, name): flag_text(value) for name, value in names.items()}


def flag_text(value: Any) -> str:
    """A vendor's option as its flag would have it."""
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
