"""SimpleGPU defines: writes the code before a kernel's source code.

The built-in defines come first. For each tensor of the op, they are the defines of Inference Engine custom layers,
such as `INPUT0_DIMS`; arrays always have the order B, F, Y, X. The elements of arrays are `int`, so that `min(x,
INPUT0_DIMS[3])` compiles. The layer's own defines follow: first those for quantization, then those for options,
and then those in the description.

Floats are written so that C reads the exact value. Floats have the suffix `f` if the type float can represent
them, so that a
kernel that multiplies by an option does not compute in double.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isinf, isnan

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import Expression, Size
from litert.core.status import Status
from litert.model.graph import Op
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define
from vendor_reference.custom_layers.kernel_source import define_line
from vendor_reference.custom_layers.kernel_spec import KernelSpec
from vendor_reference.custom_layers.layout import Bfyx
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    OpValues,
    Scalar,
    Value,
    as_value,
)
from vendor_reference.executable.source_text import USER_DEFINES, size_text

_FP16_LINES = (
    "#ifdef cl_khr_fp16",
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable",
    "#endif",
)
"""Lines before a kernel with half tensors; without these lines, OpenCL C has no arithmetic on half."""

_INIT = re.compile(rb"_INIT\b")
_FLOAT_MAX = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """The type and memory layout in which a kernel gets a tensor."""

    element_type: ElementType
    view: Bfyx


def write_prelude(
    spec: KernelSpec,
    inputs: Sequence[KernelTensor | None],
    outputs: Sequence[KernelTensor],
    global_size: Sequence[Size],
    local_size: Sequence[Size],
    holes: list[Size],
) -> str:
    """Returns the defines that come before the source code of a layer.

    A define of a run-time size is omitted if the layer's source code does not mention it, so that the program need
    not be built for each shape. The run-time sizes of the other defines are added to `holes`. Omitted inputs are
    None, and the local size is empty if the driver chooses it.
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
    """Returns whether sources, headers or defines mention the `_INIT` form of a built-in array.

    If so, this form must be defined.
    """
    return any(_INIT.search(text) for text in texts)


class _Writer:
    """Writes defines, with holes for sizes that are known only at run time."""

    def __init__(
        self, holes: list[Size], mentioned: Collection[str] | None, has_init: bool
    ) -> None:
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
        numbers = "".join(f"{size_text(value, self._holes)}{after_each}" for value in values)
        return [f"#define {name} {before}{numbers}{behind}"]


def layer_defines(
    layer: CustomLayer, op: Op, values: OpValues, notes: list[str]
) -> Sequence[tuple[str, str]]:
    """Returns the names and values of a layer's own defines, in order.

    The function adds a sentence to `notes` for each option that cannot be a define, and for each define without a
    value.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if a define has no value, or its value has the wrong type.
    """
    texts = _options(op, values, notes) if layer.defines_options else []
    for define in layer.defines:
        note = _missing_option(define, values)
        if note:
            notes.append(f"{layer.file_name}, op '{op.name}': define '{define.name}' {note}.")
        is_empty = note and isinstance(define.source, FlexOption) and define.source.default is None
        empty = define_text("", define.type, is_plain=True)
        texts.append((define.name, empty if is_empty else _text(define, values)))
    own = {define.name for define in layer.defines}
    return [*(d for d in _quantization(layer, op, texts) if d[0] not in own), *texts]


def _text(define: Define, values: OpValues) -> str:
    try:
        return define_text(values.resolve(define.source), define.type, define.is_plain)
    except LiteRtError as error:
        raise LiteRtError(
            error.status,
            f"cannot set define '{define.name}': {error.what}",
            error.where,
            error.hint,
        ) from error


def _missing_option(define: Define, values: OpValues) -> str:
    """Returns the note about a define whose option is missing.

    "" if the option exists, or the define cannot stand alone.
    """
    source = define.source
    if not isinstance(source, FlexOption) or source.key in values.options():
        return ""
    size = values.num_other_bytes()
    why = f"the op's options are {size} bytes that are not a FlexBuffer map" if size else ""
    if source.default is not None:
        return f"has its default value: {why}" if why else ""
    if not define.is_plain:
        return ""
    return (
        f"is empty: the define has no default, and {why or f'the op has no option {source.key!r}'}"
    )


def _quantization(
    layer: CustomLayer, op: Op, own: Sequence[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Yields defines such as `INPUT0_SCALE` and `INPUT0_ZERO_POINT` for each quantized tensor.

    For quantization by channel, they are arrays. Both have a `_SIZE`. If the source code or a define of the layer
    mentions an `_INIT`, all arrays have an `_INIT`.
    """
    quantized = [
        (f"{kind}{index}", tensor.quantization)
        for kind, tensors in (("INPUT", op.inputs), ("OUTPUT", op.outputs))
        for index, tensor in enumerate(tensors)
        if tensor is not None and tensor.quantization is not None and tensor.quantization.scale
    ]
    if not layer.defines_quantization or not quantized:
        return
    has_init = uses_init([*(f.data for f in layer.files()), *(text.encode() for _, text in own)])
    for name, quantization in quantized:
        scale = [float(number) for number in quantization.scale]
        zero_point = list(quantization.zero_point) or [0]
        zero_point *= len(scale) // len(zero_point)
        yield from _quantization_array(f"{name}_SCALE", "float", scale, has_init)
        yield from _quantization_array(f"{name}_ZERO_POINT", "int", zero_point, has_init)


def _quantization_array(
    name: str, c_type: str, numbers: Sequence[int | float], has_init: bool
) -> Iterator[tuple[str, str]]:
    elements = define_text(tuple(numbers))
    yield f"{name}_SIZE", str(len(numbers))
    if has_init:
        yield f"{name}_INIT", f"{{ {elements} }}"
    yield name, f"({c_type}[]) {{{elements}}}" if len(numbers) > 1 else elements


def _options(op: Op, values: OpValues, notes: list[str]) -> list[tuple[str, str]]:
    """Returns each option as `PARAM_<key>`."""
    defines = []
    if size := values.num_other_bytes():
        notes.append(
            f"op '{op.name}': the {size} bytes of options are not a FlexBuffer map, so they "
            "become no defines; a description (.json) can read a C struct by 'field'."
        )
    for key, entry in values.options().items():
        value = as_value(entry)
        reason = ""
        if not f"_{key}".isidentifier() or not key.isascii():
            reason = "the option's name cannot be part of a C identifier"
        elif value is None:
            reason = "the value is neither numbers nor text"
        else:
            try:
                defines.append((f"PARAM_{key}", define_text(value)))
            except LiteRtError as error:
                reason = error.what
        if reason:
            notes.append(f"op '{op.name}': option {key!r} becomes no define: {reason}.")
    return defines


def define_text(value: Value, define_type: str = "", is_plain: bool = False) -> str:
    """Returns the value of a define as C source code.

    Args:
      value: A number or string, or a sequence of numbers or strings.
      define_type: `int`, `float`, `int[]`, `float[]`; or "" to use the value unchanged, with commas
        between the elements of an array.
      is_plain: Whether values stay unchanged even if `define_type` is not empty: the type then only says whether
        the value gets braces, as in custom layer configurations. In this case, only the comments in a string are
        removed.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the value does not have the type, or if it is a string that a define cannot
        contain.
    """
    if isinstance(value, (bool, int, float, str)):
        values: Sequence[Scalar] = (value,)
        is_array = False
    else:
        values, is_array = value, True
    element_type = define_type.removesuffix("[]")
    text = ",".join(_plain(v) if is_plain else _typed(v, element_type) for v in values)
    if element_type != define_type:
        return f"({define_type}) {{{text}}}"
    if is_array and define_type and not is_plain:
        raise _error(
            f"the op's option has {len(values)} values, but the define needs one {define_type}"
        )
    return text


def _plain(value: Scalar) -> str:
    return define_line(value) if isinstance(value, str) else _typed(value, "")


def _typed(value: Scalar, element_type: str) -> str:
    if isinstance(value, str):
        if element_type:
            raise _error(f"the value is the string '{value}', but must be of type {element_type}")
        if define_line(value) != value:
            what = "it contains a comment, or ends with a backslash"
            raise _error(f"a #define cannot contain the string {value[:40]!r}: {what}")
        return value
    if element_type == "float" or (isinstance(value, float) and not element_type):
        return _float(float(value))
    if isinstance(value, float) and not value.is_integer():
        raise _error(f"the value is {value}, but must be of type int")
    return _int(int(value))


def _float(value: float) -> str:
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return repr(value) + ("f" if abs(value) <= _FLOAT_MAX else "")


def _int(value: int) -> str:
    if value == -(2**63):
        return "(-9223372036854775807L - 1)"
    return f"{value}UL" if value >= 2**63 else str(value)


def _error(what: str) -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, what)
