"""The text in front of a kernel's sources: the built-in defines of custom layers, then the layer's own.

The built-in ones are those of Inference Engine custom layers, for each tensor that the op has: `INPUT0_DIMS`
and its fellows, always in the order B, F, Y, X. Array elements are `int`, so that `min(x, INPUT0_DIMS[3])` works.
"""

from __future__ import annotations

from collections.abc import Sequence

from litert.core.errors import LiteRtError
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.define_text import define_text
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.layout import bfyx
from vendor_reference.custom_layers.value_sources import OpValues, as_value


def write_prelude(
    layer: CustomLayer,
    op: Op,
    values: OpValues,
    global_size: Sequence[int],
    local_size: Sequence[int],
    notes: list[str],
) -> str:
    """The defines for one op; `notes` gets a sentence for each option that cannot be a define.

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
    if layer.defines_options:
        lines += _options(op, values, notes)
    for define in layer.defines:
        try:
            text = define_text(values.resolve(define.source), define.type)
        except LiteRtError as error:
            raise LiteRtError(
                error.status, f"define '{define.name}': {error.what}", error.where, error.hint
            ) from error
        lines.append(f"#define {define.name} {text}")
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


def _array(name: str, element_type: str, values: Sequence[int]) -> list[str]:
    elements = "{ " + "".join(f"{v}," for v in values) + " } "
    return [
        f"#define {name}_SIZE {len(values)}",
        f"#define {name}_INIT {elements}",
        f"#define {name} ({element_type} []){elements}",
    ]


def _options(op: Op, values: OpValues, notes: list[str]) -> list[str]:
    """Each FlexBuffer option as `PARAM_<key>`."""
    lines = []
    if size := values.num_other_bytes():
        notes.append(
            f"op '{op.name}': its {size} bytes of options are no FlexBuffer map, so no define has them; a "
            "description (.json) reads a C struct by 'field'."
        )
    for key, entry in values.options().items():
        value = as_value(entry)
        reason = ""
        if not f"_{key}".isidentifier() or not key.isascii():
            reason = "its name cannot be part of a C name"
        elif value is None:
            reason = "it is neither numbers nor text"
        else:
            try:
                lines.append(f"#define PARAM_{key} {define_text(value)}")
            except LiteRtError as error:
                reason = f"it is {error.what}"
        if reason:
            notes.append(f"op '{op.name}': option {key!r} is no define: {reason}.")
    return lines
