"""The text in front of a kernel's sources: the built-in defines of custom layers, then the layer's own.

The built-in ones are those of Inference Engine custom layers, for each tensor that the op has: `INPUT0_DIMS`
and its fellows, always in the order B, F, Y, X. Array elements are `int`, so that `min(x, INPUT0_DIMS[3])` works.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from litert.core.sizes import Expression, Size
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.custom_layers.layout import Bfyx
from vendor_reference.executable.source_text import Holes

USER_DEFINES = "// Custom Layer User Defines\n"
"""Parts the built-in defines from the layer's own."""

_FP16_LINES = (
    "#ifdef cl_khr_fp16",
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
    "#endif",
)
"""In front of a kernel that gets halves: OpenCL C has no arithmetic on them without."""

_INIT = re.compile(rb"_INIT\b")


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """A tensor as a kernel gets it."""

    element_type: ElementType
    view: Bfyx


def write_prelude(
    spec: KernelSpec,
    inputs: Sequence[KernelTensor | None],
    outputs: Sequence[KernelTensor],
    global_size: Sequence[Size],
    local_size: Sequence[Size],
    holes: Holes,
) -> str:
    """The text in front of a layer's sources.

    A define of what a run tells is left out where the layer's text does not mention it, so that the program
    need not be built for each shape.

    Args:
      spec: of the kernel.
      inputs: of the op; None for those that are left out.
      outputs: of the op.
      global_size: how many work items there are.
      local_size: in which groups; empty where the driver chooses.
      holes: get the sizes that a run tells.
    """
    has_halves = any(
        tensor is not None and tensor.element_type is ElementType.FLOAT16
        for tensor in (*inputs, *outputs)
    )
    lines = [
        "// Custom Layer Built-ins",
        *(_FP16_LINES if has_halves else ()),
        f"#define NUM_INPUTS {len(inputs)}",
    ]
    writer = _Writer(holes, spec.mentions, spec.uses_init)
    lines += writer.array("GLOBAL_WORKSIZE", "size_t", global_size)
    lines += writer.array("LOCAL_WORKSIZE", "size_t", local_size)
    for kind, tensors in (("INPUT", inputs), ("OUTPUT", outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                lines += writer.tensor(f"{kind}{index}", tensor)
    own = "".join(f"#define {name} {text}\n" for name, text in spec.defines)
    return "\n".join([*lines, "", USER_DEFINES]) + own


def uses_init(texts: Iterable[bytes]) -> bool:
    """Whether sources, headers or defines name a built-in array's `_INIT`, so that it is to be there."""
    return any(_INIT.search(text) for text in texts)


class _Writer:
    """Writes defines, with holes for what a run tells."""

    def __init__(self, holes: Holes, mentioned: Collection[str] | None, has_init: bool) -> None:
        self._holes = holes
        self._mentioned = mentioned
        self._has_init = has_init

    def tensor(self, name: str, tensor: KernelTensor) -> list[str]:
        view = tensor.view
        return [
            *self.array(f"{name}_DIMS", "int", view.dims),
            f"#define {name}_TYPE {CL_TYPES[tensor.element_type]}",
            f"#define {name}_FORMAT_{view.memory_order} ",
            *self.array(f"{name}_LOWER_PADDING", "int", view.lower_padding),
            *self.array(f"{name}_UPPER_PADDING", "int", view.upper_padding),
            *self.array(f"{name}_PITCHES", "int", view.pitches),
            *self._define(f"{name}_OFFSET", [view.offset], "", ""),
        ]

    def array(self, name: str, element_type: str, values: Sequence[Size]) -> list[str]:
        init = self._define(f"{name}_INIT", values, "{ ", " } ", ",") if self._has_init else []
        return [
            f"#define {name}_SIZE {len(values)}",
            *init,
            *self._define(name, values, f"({element_type} []){{ ", " } ", ","),
        ]

    def _define(
        self, name: str, values: Sequence[Size], before: str, behind: str, after_each: str = ""
    ) -> list[str]:
        is_open = any(isinstance(value, Expression) for value in values)
        if is_open and self._mentioned is not None and name not in self._mentioned:
            return []
        numbers = "".join(f"{self._holes.text(value)}{after_each}" for value in values)
        return [f"#define {name} {before}{numbers}{behind}"]
