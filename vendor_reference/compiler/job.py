"""The settings that all partitions are compiled with, on the way from the plugin to the levels."""

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
    """A job of the compiler.

    Attributes:
      soc: SoC that the executable is made for.
      layers: Layers by custom code.
      library: Builtin ops that the library has, by name.
      bounds: Largest shapes of tensors of dynamic shape, by name.
      halves: Policy for half tensors in kernels that ask for no type.
      allow_native_assets: Whether layers that are machine code may run on the host.
      taps: Whether tensors between ops keep their names.
      edits: Files of IR text to compile functions from, by function name.
    """

    soc: SocModel
    layers: Mapping[str, CustomLayer]
    library: Mapping[str, LibraryOp] = field(default_factory=lambda: NO_LIBRARY)
    bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    halves: HalfPolicy = BY_DEVICE
    allow_native_assets: bool = False
    taps: bool = False
    edits: Mapping[str, str] = field(default_factory=dict)
