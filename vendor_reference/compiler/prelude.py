"""The text in front of a kernel's sources: the built-in defines of custom layers, then the layer's own.

The built-in ones are those of Inference Engine custom layers, for each tensor that the op has: `INPUT0_DIMS`
and its fellows, always in the order B, F, Y, X. Array elements are `int`, so that `min(x, INPUT0_DIMS[3])` works.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.layout import Bfyx
from vendor_reference.executable.sizes import Size


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """A tensor as a kernel gets it."""

    element_type: ElementType
    view: Bfyx


def write_prelude(
    defines: Sequence[tuple[str, str]],
    inputs: Sequence[KernelTensor | None],
    outputs: Sequence[KernelTensor],
    global_size: Sequence[Size],
    local_size: Sequence[Size],
) -> str:
    """The text in front of a layer's sources.

    Args:
      defines: the layer's own, names and texts.
      inputs: of the op; None for those that are left out.
      outputs: of the op.
      global_size: how many work items there are.
      local_size: in which groups; empty where the driver chooses.
    """
    lines = ["// Custom Layer Built-ins", "", f"#define NUM_INPUTS {len(inputs)}"]
    lines += _array("GLOBAL_WORKSIZE", "size_t", global_size)
    lines += _array("LOCAL_WORKSIZE", "size_t", local_size)
    for kind, tensors in (("INPUT", inputs), ("OUTPUT", outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                lines += _tensor(f"{kind}{index}", tensor)
    lines += ["", "// Custom Layer User Defines", ""]
    lines += [f"#define {name} {text}" for name, text in defines]
    return "\n".join([*lines, "", ""])


def _tensor(name: str, tensor: KernelTensor) -> list[str]:
    view = tensor.view
    return [
        *_array(f"{name}_DIMS", "int", view.dims),
        f"#define {name}_TYPE {CL_TYPES[tensor.element_type]}",
        f"#define {name}_FORMAT_{view.memory_order} ",
        *_array(f"{name}_LOWER_PADDING", "int", view.lower_padding),
        *_array(f"{name}_UPPER_PADDING", "int", view.upper_padding),
        *_array(f"{name}_PITCHES", "int", view.pitches),
        f"#define {name}_OFFSET {view.offset}",
    ]


def _array(name: str, element_type: str, values: Sequence[Size]) -> list[str]:
    elements = "{ " + "".join(f"{v}," for v in values) + " } "
    return [
        f"#define {name}_SIZE {len(values)}",
        f"#define {name}_INIT {elements}",
        f"#define {name} ({element_type} []){elements}",
    ]
