"""The settings with which the plugin compiles all partitions of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vendor_reference.compiler.half_tensors import BY_DEVICE, HalfPolicy
from vendor_reference.compiler.library.library_op import LibraryOp
from vendor_reference.compiler.op_selection import NO_LIBRARY
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.soc import SocModel


@dataclass(frozen=True, slots=True)
class Job:
    """The settings of a compilation.

    Attributes:
      soc: SoC that the executable is made for.
      layers: Custom layers, by the custom code of the op that each layer implements.
      library: Builtin ops that the NPU may run with library kernels, by name.
      bounds: Largest shapes of tensors of dynamic shape, by name.
      halves: Type that half tensors have in kernels that do not require a type.
      allow_native_assets: Whether custom layers that are machine code may run on the host.
      taps: Whether tensors between ops keep their names, so that their values can be recorded.
      edits: Files whose IR text replaces functions, by function name.
    """

    soc: SocModel
    layers: Mapping[str, CustomLayer]
    library: Mapping[str, LibraryOp] = field(default_factory=lambda: NO_LIBRARY)
    bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    halves: HalfPolicy = BY_DEVICE
    allow_native_assets: bool = False
    taps: bool = False
    edits: Mapping[str, str] = field(default_factory=dict)
