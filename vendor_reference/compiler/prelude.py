"""The text in front of a kernel's sources: the built-in defines of custom layers, then the layer's own.

The built-in ones are those of Inference Engine custom layers, for each tensor that the op has: `INPUT0_DIMS`
and its fellows, always in the order B, F, Y, X. Array elements are `int`, so that `min(x, INPUT0_DIMS[3])` works.
"""

from __future__ import annotations

from collections.abc import Sequence

from litert.model.graph import Op, Tensor
from vendor_reference.compiler.layer_defines import layer_defines
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.layout import bfyx
from vendor_reference.custom_layers.value_sources import OpValues
from vendor_reference.executable.sizes import Size


def write_prelude(
    layer: CustomLayer,
    op: Op,
    values: OpValues,
    global_size: Sequence[int],
    local_size: Sequence[int],
    notes: list[str],
) -> str:
    """The defines for one op; `notes` gets what `layer_defines` has to say.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a define has no value, or one of another type.
    """
    lines = ["// Custom Layer Built-ins", "", f"#define NUM_INPUTS {len(op.inputs)}"]
    lines += _array("GLOBAL_WORKSIZE", "size_t", global_size)
    lines += _array("LOCAL_WORKSIZE", "size_t", local_size)
    for kind, tensors in (("INPUT", op.inputs), ("OUTPUT", op.outputs)):
        for index, tensor in enumerate(tensors):
            if tensor is not None:
                lines += _tensor(f"{kind}{index}", tensor)
    lines += ["", "// Custom Layer User Defines", ""]
    lines += [f"#define {n} {text}" for n, text in layer_defines(layer, op, values, notes)]
    return "\n".join([*lines, "", ""])


def _tensor(name: str, tensor: Tensor) -> list[str]:
    view = bfyx(tensor.shape)
    none = (0, 0, 0, 0)
    return [
        *_array(f"{name}_DIMS", "int", view.dims),
        f"#define {name}_TYPE {CL_TYPES[tensor.element_type]}",
        f"#define {name}_FORMAT_{view.memory_order} ",
        *_array(f"{name}_LOWER_PADDING", "int", none),
        *_array(f"{name}_UPPER_PADDING", "int", none),
        *_array(f"{name}_PITCHES", "int", view.pitches),
        f"#define {name}_OFFSET 0",
    ]


def _array(name: str, element_type: str, values: Sequence[Size]) -> list[str]:
    elements = "{ " + "".join(f"{v}," for v in values) + " } "
    return [
        f"#define {name}_SIZE {len(values)}",
        f"#define {name}_INIT {elements}",
        f"#define {name} ({element_type} []){elements}",
    ]
