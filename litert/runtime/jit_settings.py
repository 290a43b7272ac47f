"""What compiling at load is told by a program's environment and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from litert.core.compiler_options import CompilerOptions


@dataclass(frozen=True, slots=True)
class JitSettings:
    """How a model that is not compiled is compiled when it is loaded.

    Attributes:
      soc_manufacturer: whose NPU; "" for the first vendor that takes an op.
      soc_model: which of that vendor's NPUs; "" for the plugin's first.
      compiler: what the plugin is told; `vendor_options` are those of all vendors, of which each gets its own.
      stock_flags: what the program has set in the option groups of `ai_edge_litert`, as flags, by group.
    """

    soc_manufacturer: str = ""
    soc_model: str = ""
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    stock_flags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def is_asked(self) -> bool:
        """Whether the program says what to compile for or with, so that it must know what goes wrong."""
        compiler = self.compiler
        return any(
            (
                self.soc_manufacturer,
                compiler.custom_op_infos,
                compiler.custom_layers,
                compiler.shape_bounds,
                compiler.vendor_options,
            )
        )
