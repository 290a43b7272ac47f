"""SOFTMAX, LOG_SOFTMAX, L2_NORMALIZATION: these ops normalize each row by a sum over the row."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

from litert.core.element_type import ElementType
from litert.model.graph import Op
from vendor_reference.compiler.library.elementwise import Formula, KernelOperand, loop_fields
from vendor_reference.compiler.library.library_op import (
    BYTES,
    FLOATS,
    Attributes,
    LibraryOp,
    PlacedOp,
    Shape,
    activation_of,
    option,
)
from vendor_reference.compiler.library.moves import command_loops
from vendor_reference.compiler.library.ops.reductions import ELEMENT_TYPES
from vendor_reference.compiler.library.traced_size import range_of
from vendor_reference.compiler.library.views import View, plan_loops
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    tensor_arguments,
)
from vendor_reference.firmware.instructions import Command, FieldValue

_BETA = "beta"
_KINDS = {"SOFTMAX": 0, "LOG_SOFTMAX": 1, "L2_NORMALIZATION": 2}
_WHOLE, _STATISTICS, _RESULTS = range(3)

_MOST_PARTS = 8
_PART_ELEMENTS = 2048
_SHARED_ROWS = 4
"""If there are at most this many rows, and each has enough elements, each row is split among the workers."""


class _Normalization(LibraryOp):
    """Normalizes along the last dimension."""

    types = FLOATS

    def __init__(self, name: str, ie_name: str) -> None:
        self.name = name
        self.ie_name = ie_name
        self.constraints = (
            ("the fused activation must be NONE",) if name == "L2_NORMALIZATION" else ()
        )
        self.quantized = BYTES if name == "SOFTMAX" else ()

    def parameter_refusal(self, op: Op) -> str:
        activation = activation_of(op) if self.name == "L2_NORMALIZATION" else "NONE"
        return "" if activation == "NONE" else f"fused activation {activation} is not supported"

    def attributes(self, op: Op) -> Attributes:
        beta = {_BETA: float(option(op, _BETA))} if self.name == "SOFTMAX" else {}
        return {**super().attributes(op), **beta}

    def result_shapes(
        self, shapes: Sequence[Shape], attributes: Attributes
    ) -> Sequence[Shape] | None:
        return shapes

    def mismatch(self, call: PlacedOp) -> str:
        if call.inputs[0].shape != call.result.shape or not call.result.shape:
            return call.shape_mismatch()
        beta = call.attributes.get(_BETA) if self.name == "SOFTMAX" else 1.0
        if not isinstance(beta, float) or not 0 < beta < inf:
            return f"'{_BETA}' is {beta}, expected a number above 0"
        return self.type_mismatch(call)

    def kernel(self, call: PlacedOp) -> KernelSpec:
        is_quantized = call.result.element_type in self.quantized
        return self._quantized_kernel(call) if is_quantized else self._float_kernel(call)

    def _quantized_kernel(self, call: PlacedOp) -> KernelSpec:
        """Returns a kernel that converts integers to floats in scratch memory, and normalizes these."""
        dense = View.dense(ElementType.FLOAT32, call.result.shape)
        floats = InternalArgument(ElementType.FLOAT32, str(prod(dense.shape)))
        inner = self._float_kernel(PlacedOp((dense,), (dense,), call.attributes))
        read = Formula("a", [KernelOperand(call.inputs[0], call.scale(0))], KernelOperand(dense))
        write = Formula("a", [KernelOperand(dense)], KernelOperand(call.result, call.scale(-1)))
        programs = [ConstantArgument(ElementType.UINT32, f.program()) for f in (read, write)]
        places = {"input": 2, "result": 2, "statistics": 5}
        commands = [
            Command(c.instruction, tuple((name, places.get(name, v)) for name, v in c.fields))
            for c in inner.commands
        ]
        arguments = (*tensor_arguments(1), floats, *programs, *inner.arguments[2:])
        first = _elementwise(read, a=0, result=2, program=3)
        last = _elementwise(write, a=2, result=1, program=4)
        return KernelSpec(self.name, arguments, commands=(first, *commands, last))

    def _float_kernel(self, call: PlacedOp) -> KernelSpec:
        operand, result = call.inputs[0], call.result
        last = len(result.shape) - 1
        rows = plan_loops([operand.without([last]), result.without([last])])
        size = result.shape[last]
        loops = rows.around(size, (operand.strides[last], result.strides[last]))
        num_rows = prod(result.shape[:last])
        parts = 1
        if range_of(num_rows)[1] <= _SHARED_ROWS:
            parts = min(_MOST_PARTS, range_of(size)[1] // _PART_ELEMENTS)
        arguments: tuple[KernelArgument, ...] = tensor_arguments(1)
        beta = call.attributes.get(_BETA, 1.0)
        assert isinstance(beta, float)
        fields: dict[str, FieldValue] = {
            "kind": _KINDS[self.name],
            "type": ELEMENT_TYPES[result.element_type],
            _BETA: beta,
            "parts": max(parts, 1),
        }
        stages = [_WHOLE]
        if parts > 1:
            stages = [_STATISTICS, _RESULTS]
            fields["statistics"] = 2
            arguments = (
                *arguments,
                InternalArgument(ElementType.FLOAT32, str(2 * parts * num_rows)),
            )
        commands = [
            Command.of("Normalize", input=0, result=1, stage=stage, **fields, **nest)
            for stage in stages
            for nest in command_loops(loops)
        ]
        return KernelSpec(self.name, arguments, commands=tuple(commands))


def _elementwise(formula: Formula, **places: int) -> Command:
    loops = plan_loops([*(operand.view for operand in formula.operands), formula.result.view])
    return Command.of("Elementwise", **places, **loop_fields(loops))


OPS = (
    _Normalization("SOFTMAX", "SoftMax"),
    _Normalization("LOG_SOFTMAX", "LogSoftmax"),
    _Normalization("L2_NORMALIZATION", "NormalizeL2"),
)
