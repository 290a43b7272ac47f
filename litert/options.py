"""How one model is loaded; names are those of `ai_edge_litert.options`.

The option groups of stock's vendors (`QualcommOptions`, `IntelOpenVinoOptions` and their enums) are stock's own
classes, imported when they are asked for; what is set in them goes to the vendor's dispatch table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from litert.core.compiler_options import CustomOpInfo
from litert.cpu_kernel_mode import CpuKernelMode
from litert.cpu_options import CpuOptions
from litert.gpu_options import GpuOptions
from litert.hardware_accelerator import HardwareAccelerator

if TYPE_CHECKING:
    from ai_edge_litert.options import IntelOpenVinoOptions, QualcommOptions

__all__ = ["CpuKernelMode", "CpuOptions", "GpuOptions", "HardwareAccelerator", "Options"]

_STOCK_GROUPS = ("Qualcomm", "IntelOpenVino")


@dataclass(init=False)
class Options:
    """Options of one model.

    Attributes:
      hardware_accelerators: what may run it.
      dispatch_options: for the vendor's dispatch table, by name.
      check_digests: whether all assets and byte code are compared with the manifest's digests at load, rather
        than those of 16 MiB or less.
      allow_native_assets: whether machine code in a file's assets may run in this process; the vendor's table gets
        it as the option `allow_native_assets`.
      custom_op_infos: the assets of a model that is compiled when it is loaded; this and what follows is of no
        consequence for one that is compiled, or that the NPU is not asked for.
      soc_manufacturer: whose NPU to compile for; "" for the first vendor that takes an op.
      soc_model: which of its NPUs; "" for its plugin's first.
      compiler_options: for vendors' compiler plugins, by the names that their flags of `apply_plugin` have.
      custom_layers: files and folders of layers for any model; `custom_op_infos` go before them.
      asset_root: the folder that files named by assets may lie in; "" for each asset's own.
      shape_bounds: the largest shape of each model input of dynamic shape, by name.
      check_kernels: whether each kernel is built once when it is compiled, so that its errors show then.
    """

    hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU
    dispatch_options: Mapping[str, str] = field(default_factory=dict)
    check_digests: bool = False
    allow_native_assets: bool = False
    custom_op_infos: Sequence[CustomOpInfo] = ()
    soc_manufacturer: str = ""
    soc_model: str = ""
    compiler_options: Mapping[str, str] = field(default_factory=dict)
    custom_layers: Sequence[str] = ()
    asset_root: str = ""
    shape_bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    check_kernels: bool = True
    _cpu_options: CpuOptions | None = None
    _gpu_options: GpuOptions | None = None
    _qualcomm_options: Any = None
    _intel_openvino_options: Any = None

    def __init__(
        self,
        hardware_accelerators: HardwareAccelerator = HardwareAccelerator.CPU,
        cpu_options: CpuOptions | None = None,
        gpu_options: GpuOptions | None = None,
        qualcomm_options: QualcommOptions | None = None,
        intel_openvino_options: IntelOpenVinoOptions | None = None,
        *,
        dispatch_options: Mapping[str, str] | None = None,
        check_digests: bool = False,
        allow_native_assets: bool = False,
        custom_op_infos: Sequence[CustomOpInfo] = (),
        soc_manufacturer: str = "",
        soc_model: str = "",
        compiler_options: Mapping[str, str] | None = None,
        custom_layers: Sequence[str] = (),
        asset_root: str = "",
        shape_bounds: Mapping[str, Sequence[int]] | None = None,
        check_kernels: bool = True,
    ) -> None:
        self.hardware_accelerators = hardware_accelerators
        self.dispatch_options = dispatch_options or {}
        self.check_digests = check_digests
        self.allow_native_assets = allow_native_assets
        self.custom_op_infos = custom_op_infos
        self.soc_manufacturer = soc_manufacturer
        self.soc_model = soc_model
        self.compiler_options = compiler_options or {}
        self.custom_layers = custom_layers
        self.asset_root = asset_root
        self.shape_bounds = shape_bounds or {}
        self.check_kernels = check_kernels
        self._cpu_options = cpu_options
        self._gpu_options = gpu_options
        self._qualcomm_options = qualcomm_options
        self._intel_openvino_options = intel_openvino_options

    @classmethod
    def create(cls) -> Options:
        """The defaults."""
        return cls()

    @property
    def cpu_options(self) -> CpuOptions:
        """The CPU's, to be changed; made when first asked for, as all groups."""
        if self._cpu_options is None:
            self._cpu_options = CpuOptions()
        return self._cpu_options

    @property
    def gpu_options(self) -> GpuOptions:
        if self._gpu_options is None:
            self._gpu_options = GpuOptions()
        return self._gpu_options

    @property
    def qualcomm_options(self) -> QualcommOptions:
        if self._qualcomm_options is None:
            self._qualcomm_options = _stock("QualcommOptions")()
        return self._qualcomm_options

    @property
    def intel_openvino_options(self) -> IntelOpenVinoOptions:
        if self._intel_openvino_options is None:
            self._intel_openvino_options = _stock("IntelOpenVinoOptions")()
        return self._intel_openvino_options

    def all_dispatch_options(self) -> dict[str, str]:
        """`dispatch_options`, `allow_native_assets`, and what is set in stock's groups as `<group>.<field>`."""
        found = {"allow_native_assets": "true"} if self.allow_native_assets else {}
        for group, options in self._stock_groups().items():
            found.update(_set_fields(group, options))
        return {**found, **self.dispatch_options}

    def stock_compiler_flags(self) -> dict[str, dict[str, str]]:
        """What is set in stock's groups as flags of `apply_plugin`, by group."""
        from litert.stock_flags import group_flags  # here: few programs have groups

        groups = self._stock_groups()
        return {group: group_flags(group, options) for group, options in groups.items()}

    def _stock_groups(self) -> dict[str, Any]:
        """By the names of their vendors' folders in the wheel."""
        groups = {
            "qualcomm": self._qualcomm_options,
            "intel_openvino": self._intel_openvino_options,
        }
        return {name: options for name, options in groups.items() if options is not None}


def _set_fields(group: str, options: Any) -> dict[str, str]:
    """The fields that differ from a group's defaults; enums and flags as numbers."""
    defaults = type(options)()
    found = {}
    for member in fields(options):
        value = getattr(options, member.name)
        if value == getattr(defaults, member.name):
            continue
        name = f"{group}.{member.name}"
        if isinstance(value, Mapping):
            found.update({f"{name}.{key}": str(item) for key, item in value.items()})
        elif isinstance(value, int):
            found[name] = str(int(value))
        elif isinstance(value, str):
            found[name] = value
        else:
            found[name] = ",".join(map(str, value))
    return found


def _stock(name: str) -> Any:
    from ai_edge_litert import options

    return getattr(options, name)


def __getattr__(name: str) -> Any:
    if name.startswith(_STOCK_GROUPS):
        return _stock(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
