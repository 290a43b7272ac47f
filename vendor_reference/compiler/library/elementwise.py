"""Element by element: a kernel for one result of one to three operands, whatever their types, layouts and views.

What differs between ops is an expression, the same for one element and for eight. Sizes and strides are arguments
of the kernel, so that all ADDs of a network that run alike are one program.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from vendor_reference.compiler.library.kernel_text import (
    ALONE,
    CHUNK,
    load,
    name_kernel,
    quantized,
    store,
    vector_size,
    vector_typedefs,
)
from vendor_reference.compiler.library.steps import Scale as Scale
from vendor_reference.compiler.library.views import Loops, View, plan_loops
from vendor_reference.custom_layers.cl_types import CL_TYPES
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    KernelArgument,
    KernelSpec,
    ScalarArgument,
    TensorArgument,
)
from vendor_reference.firmware.instructions import FieldValue
from vendor_reference.firmware.operations import NUM_LOOPS, NUM_OPERANDS

_OPERANDS = "abc"
_RESULT = TensorArgument(is_output=True, index=0)


@dataclass(frozen=True, slots=True)
class KernelOperand:
    """What a kernel reads or writes.

    Attributes:
      view: of an operand, already repeated to the result's shape.
      scale: where its integers stand for real numbers.
      argument: what is bound to it; None for the op's input of the same number.
    """

    view: View
    scale: Scale | None = None
    argument: KernelArgument | None = None


def elementwise_kernel(
    title: str,
    expression: str,
    compute: str,
    operands: Sequence[KernelOperand],
    result: KernelOperand,
) -> KernelSpec:
    """The kernel that writes `expression` for each element.

    Args:
      title: of the layer.
      expression: in OpenCL C, over `a`, `b` and `c`; it must mean the same for numbers and for vectors.
      compute: the type that it is computed in: `float`, `int`, `long`, ...; `float` where anything is quantized.
      operands: one to three.
      result: output 0; it can be written over operand 0 where that lies in the same way.
    """
    loops = plan_loops([*(operand.view for operand in operands), result.view])
    entry, text = name_kernel(title, _Text(expression, compute, operands, result, loops).write())
    arguments: list[KernelArgument] = [
        operand.argument or TensorArgument(is_output=False, index=index)
        for index, operand in enumerate(operands)
    ]
    arguments.append(_RESULT)
    for operand in operands:
        if operand.scale:
            arguments += [_float(operand.scale.scale), _float(operand.scale.zero_point)]
    if result.scale:
        arguments += [_float(1 / result.scale.scale), _float(result.scale.zero_point)]
    arguments.append(_geometry(loops))
    global_size = _global_size(loops)
    return KernelSpec(
        title,
        tuple(arguments),
        text=text,
        entry=entry,
        global_size=global_size,
        local_size=ALONE[: len(global_size)],
        in_place=_lies_alike(operands[0], result),
    )


def _lies_alike(operand: KernelOperand, result: KernelOperand) -> bool:
    """Whether each element of the result takes the bytes of that element of the operand."""
    first, second = operand.view, result.view
    same_size = first.element_type.bits == second.element_type.bits
    return same_size and (first.strides, first.offset) == (second.strides, second.offset)


def loop_fields(loops: Loops) -> Mapping[str, FieldValue]:
    """How operands and result lie, as the instruction has it; of `loops`, the result's view is the last."""
    strides = [loops.strides[-1], *loops.strides[:-1]]
    offsets = [loops.offsets[-1], *loops.offsets[:-1]]
    missing = NUM_OPERANDS + 1 - len(strides)
    return {
        "num_loops": len(loops.sizes),
        "sizes": _padded(loops.sizes, NUM_LOOPS),
        "offsets": _padded(offsets, NUM_OPERANDS + 1),
        "strides": tuple(n for row in [*strides, *[()] * missing] for n in _padded(row, NUM_LOOPS)),
    }


def _padded(numbers: Sequence[int], size: int) -> tuple[int, ...]:
    return (*numbers, *[0] * (size - len(numbers)))


def _geometry(loops: Loops) -> KernelArgument:
    """Rows for a work item, the sizes of the loops; then for each view its offset, and its stride in each loop."""
    if loops.is_flat:
        return ScalarArgument(ElementType.UINT32, struct.pack("<I", loops.sizes[0]))
    numbers = [_rows_per_item(loops), *loops.sizes]
    for offset, strides in zip(loops.offsets, loops.strides, strict=True):
        numbers += [offset, *strides]
    return ConstantArgument(ElementType.UINT32, struct.pack(f"<{len(numbers)}I", *numbers))


def _global_size(loops: Loops) -> tuple[str, ...]:
    """Chunks of a row; and rows, or groups of short ones."""
    chunks = str(-(-loops.sizes[-1] // CHUNK))
    if loops.is_flat:
        return (chunks,)
    return chunks, str(-(-loops.num_rows // _rows_per_item(loops)))


def _rows_per_item(loops: Loops) -> int:
    return max(1, CHUNK // max(loops.sizes[-1], 1))


def _float(number: float) -> ScalarArgument:
    return ScalarArgument(ElementType.FLOAT32, struct.pack("<f", number))


class _Text:
    """The source in the making."""

    def __init__(
        self,
        expression: str,
        compute: str,
        operands: Sequence[KernelOperand],
        result: KernelOperand,
        loops: Loops,
    ) -> None:
        self._expression = expression
        self._compute = compute
        self._operands = operands
        self._result = result
        self._loops = loops
        types = [o.view.element_type for o in (*operands, result)]
        self._c_types = [*(CL_TYPES[t] for t in types), compute]
        self._vector = vector_size(self._c_types)
        self._names = [*_OPERANDS[: len(operands)], "r"]
        self._steps = dict(zip(self._names, loops.steps, strict=True))

    def write(self) -> str:
        lines = [*vector_typedefs(self._c_types, self._vector), ""]
        lines.append(f"__kernel void KERNEL({', '.join(self._parameters())}) {{")
        body = self._rows() if not self._loops.is_flat else self._flat()
        return "\n".join([*lines, *(f"  {line}" for line in body), "}", ""])

    def _parameters(self) -> list[str]:
        named = list(zip(self._names, self._operands, strict=False))
        parameters = [
            f"const __global {CL_TYPES[o.view.element_type]}* {name}_data" for name, o in named
        ]
        parameters.append(f"__global {CL_TYPES[self._result.view.element_type]}* r_data")
        for name, operand in named:
            if operand.scale:
                parameters += [f"const float {name}_scale", f"const float {name}_zero"]
        if self._result.scale:
            parameters += ["const float r_inverse_scale", "const float r_zero"]
        is_flat = self._loops.is_flat
        return [*parameters, "const uint size" if is_flat else "const __global uint* geometry"]

    def _flat(self) -> list[str]:
        lines = _chunk("size")
        for name in self._names:
            constant = "" if name == "r" else "const "
            lines.append(f"{constant}__global {self._stored(name)}* const {name}p = {name}_data;")
        return [*lines, *self._elements()]

    def _rows(self) -> list[str]:
        """Rows of the innermost loop; `geometry` is read in the order in which `_geometry` writes it."""
        num_loops, outer = len(self._loops.sizes), len(self._loops.sizes) - 1
        sizes = [f"geometry[{1 + loop}]" for loop in range(num_loops)]
        num_rows = " * ".join(f"(size_t){size}" for size in sizes[:-1]) or "1"
        lines = [
            *_chunk(sizes[-1]),
            f"const size_t num_rows = {num_rows};",
            "const size_t first = get_global_id(1) * geometry[0];",
            "const size_t last = min(first + geometry[0], num_rows);",
            "for (size_t row = first; row < last; ++row) {",
        ]
        inside = ["size_t rest = row;"] if outer else []
        for loop in range(outer - 1, 0, -1):
            inside += [f"const size_t i{loop} = rest % {sizes[loop]};", f"rest /= {sizes[loop]};"]
        inside += ["const size_t i0 = rest;"] if outer else []
        at = 1 + num_loops
        for name in self._names:
            offsets = [f"i{loop} * geometry[{at + 1 + loop}]" for loop in range(outer)]
            constant = "" if name == "r" else "const "
            inside.append(
                f"{constant}__global {self._stored(name)}* const {name}p = "
                f"{' + '.join([f'{name}_data + geometry[{at}]', *offsets])};"
            )
            if self._steps[name] not in (0, 1):
                inside.append(f"const size_t {name}_step = geometry[{at + num_loops}];")
            at += 1 + num_loops
        return [*lines, *(f"  {line}" for line in [*inside, *self._elements()]), "}"]

    def _elements(self) -> list[str]:
        """From `begin` to `end` of a row: vectors where all elements lie in rows, then what is left."""
        lines = ["size_t i = begin;"]
        if self._has_vectors():
            lines.append(f"for (; i + {self._vector} <= end; i += {self._vector}) {{")
            lines += [f"  {line}" for line in self._element(self._vector)]
            lines.append("}")
        lines.append("for (; i < end; ++i) {")
        lines += [f"  {line}" for line in self._element(1)]
        return [*lines, "}"]

    def _has_vectors(self) -> bool:
        """Whether elements lie in rows everywhere, and PoCL 3.0 can convert vectors: not those of 64 bits."""
        types = set(self._c_types)
        is_one_type = len(types) == 1 or not types & {"long", "ulong", "double"}
        return set(self._steps.values()) <= {0, 1} and is_one_type

    def _element(self, count: int) -> list[str]:
        """Reads, computes and writes `count` elements."""
        suffix = "" if count == 1 else str(count)
        lines = []
        for name, operand in zip(self._names, self._operands, strict=False):
            is_one = self._steps[name] == 0 or count == 1
            value = load(
                operand.view.element_type, self._compute, self._place(name), 1 if is_one else count
            )
            if operand.scale:
                value = f"({value} - {name}_zero) * {name}_scale"
            lines.append(f"const {self._compute}{suffix} {name} = {value};")
        lines.append(f"const {self._compute}{suffix} v = {self._expression};")
        result, computed, value = self._result.view.element_type, self._compute, "v"
        if self._result.scale:
            computed, value = "int", quantized(result, "v * r_inverse_scale + r_zero", count)
        return [*lines, store(result, computed, self._place("r"), value, count)]

    def _place(self, name: str) -> str:
        places = {0: f"{name}p", 1: f"{name}p + i"}
        return places.get(self._steps[name], f"{name}p + i * {name}_step")

    def _stored(self, name: str) -> str:
        operand = self._result if name == "r" else self._operands[self._names.index(name)]
        return CL_TYPES[operand.view.element_type]


def _chunk(size: str) -> list[str]:
    """What a work item does of a row."""
    return [
        f"const size_t begin = get_global_id(0) * {CHUNK};",
        f"const size_t end = min(begin + {CHUNK}, (size_t){size});",
    ]


_E = ElementType

_LEAST = {
    _E.INT8: "-128", _E.INT16: "-32768", _E.INT32: "-2147483648", _E.INT64: "-9223372036854775808",
}  # fmt: skip
"""Of signed integers; the others' is 0. Both types of real numbers have these."""

_MOST = {
    _E.INT8: "127", _E.UINT8: "255", _E.INT16: "32767", _E.UINT16: "65535",
    _E.INT32: "2147483647", _E.UINT32: "4294967295",
    _E.INT64: "9223372036854774784", _E.UINT64: "18446744073709549568",
}  # fmt: skip
"""The greatest numbers of `double` that integers can be."""

_MOST_FLOAT = {
    **_MOST, _E.INT32: "2147483520", _E.UINT32: "4294967040",
    _E.INT64: "9223371487098961920", _E.UINT64: "18446742974197923840",
}  # fmt: skip
"""The greatest numbers of `float`."""

_COMPUTED_AS = {
    _E.FLOAT16: "float", _E.FLOAT32: "float", _E.FLOAT64: "double",
    _E.INT64: "long", _E.UINT64: "ulong", _E.UINT32: "uint",
}  # fmt: skip


def cast_kernel(title: str, source: View, result: View) -> KernelSpec:
    """The kernel that casts output 0 from input 0.

    All but zero is true, and what is no number becomes the greatest integer. A double becomes a half by way of a
    float.
    """
    from_type, to_type = source.element_type, result.element_type
    compute = _COMPUTED_AS.get(from_type, "int")
    expression = "a"
    if to_type is _E.BOOL:
        expression = "a != 0 ? 1 : a"
    elif compute in ("float", "double") and to_type in _MOST:
        suffix = ".0f" if compute == "float" else ".0"
        most = f"{(_MOST_FLOAT if compute == 'float' else _MOST)[to_type]}{suffix}"
        least = f"{_LEAST.get(to_type, '0')}{suffix}"
        expression = f"a < {least} ? {least} : a < {most} ? a : {most}"
    if to_type is _E.FLOAT16:
        compute = "float"
    return elementwise_kernel(
        title, expression, compute, [KernelOperand(source)], KernelOperand(result)
    )
