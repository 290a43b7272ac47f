"""`convert-precisions`: inserts an `IE.Convert` before and after layers that require other element types."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from litert.core.element_type import ElementType
from vendor_reference.compiler.ir.edits import read_through, settle_called_types
from vendor_reference.compiler.ir.names import bodies
from vendor_reference.compiler.ir.types import element_type_of, with_element_type
from vendor_reference.compiler.layer_ports import (
    LayerFinder,
    LayerPorts,
)
from vendor_reference.compiler.levels.ie import ConvertOp
from vendor_reference.compiler.pass_pipeline import CompilerPass

_E = ElementType

_MANTISSA_BITS = {_E.FLOAT16: 11, _E.FLOAT32: 24, _E.FLOAT64: 53}
_SIGNED_BITS = {_E.INT8: 7, _E.INT16: 15, _E.INT32: 31, _E.INT64: 63}
_UNSIGNED_BITS = {_E.BOOL: 1, _E.UINT8: 8, _E.UINT16: 16, _E.UINT32: 32, _E.UINT64: 64}


@dataclass(frozen=True)
class ConvertPrecisions(CompilerPass):
    """Inserts conversions to the element types that layers require; removes conversions that change nothing."""

    name = "convert-precisions"
    AFTER = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        finder = LayerFinder(op)
        if any([_BlockConversion(block, finder).run() for _, block in bodies(op)]):
            settle_called_types(op)


class _BlockConversion:
    """Walks over a function once: each conversion of a value is made only once."""

    def __init__(self, block: Block, finder: LayerFinder) -> None:
        self._block = block
        self._finder = finder
        self._known: dict[tuple[SSAValue, ElementType], SSAValue] = {}

    def run(self) -> bool:
        """Converts, and returns whether anything needed a conversion."""
        conversions: list[ConvertOp] = []
        for op in list(self._block.ops):
            if isinstance(op, ConvertOp):
                self._share(op)
                conversions.append(op)
            elif (layer := self._finder.find(op)) is not None:
                self._convert_inputs(layer)
                conversions += self._convert_outputs(layer)
        for conversion in reversed(conversions):
            if conversion.outputs[0].first_use is None:
                self._block.erase_op(conversion)
        return bool(self._known)

    def _share(self, op: ConvertOp) -> None:
        """Replaces a conversion by an equal earlier conversion.

        Without an earlier conversion, converts from the earliest value that loses no precision.
        """
        target = element_type_of(op.outputs[0].type)
        source = _trace(op.inputs[0], target)
        known = self._find(source, target)
        if known is None:
            op.operands[0] = source
            self._known[source, target] = op.outputs[0]
        else:
            op.outputs[0].replace_all_uses_with(known)

    def _convert_inputs(self, layer: LayerPorts) -> None:
        for place, asked in layer.inputs:
            wanted = asked.precision
            if wanted is None:
                continue
            source = _trace(layer.op.operands[place], wanted)
            converted = self._find(source, wanted)
            if converted is None:
                conversion = ConvertOp.to(source, wanted)
                self._block.insert_op_before(conversion, layer.op)
                converted = self._known[source, wanted] = conversion.outputs[0]
            layer.op.operands[place] = converted

    def _convert_outputs(self, layer: LayerPorts) -> list[ConvertOp]:
        made = []
        for result, asked in layer.outputs:
            wanted, given = asked.precision, element_type_of(result.type)
            if wanted is None or wanted is given:
                continue
            new_type = with_element_type(result.type, wanted)
            conversion = read_through(result, new_type, ConvertOp.to, given)
            self._known[conversion.inputs[0], given] = conversion.outputs[0]
            made.append(conversion)
        return made

    def _find(self, value: SSAValue, target: ElementType) -> SSAValue | None:
        if element_type_of(value.type) is target:
            return value
        return self._known.get((value, target))


def _trace(value: SSAValue, target: ElementType) -> SSAValue:
    """Returns the value before conversions that do not change the target's numbers."""
    op = value.owner
    while isinstance(op, ConvertOp):
        source, between = element_type_of(op.inputs[0].type), element_type_of(value.type)
        is_number_alone = _is_float(source) == _is_float(between) or _is_float(target)
        if not is_exact(source, between) or not (is_number_alone or source is target):
            break
        value = op.inputs[0]
        op = value.owner
    return value


def is_exact(source: ElementType, target: ElementType) -> bool:
    """Returns whether the target type can represent each number of the source type exactly."""
    kinds = [
        _UNSIGNED_BITS,
        _SIGNED_BITS,
        _MANTISSA_BITS,
    ]  # each kind can hold the numbers of the kinds before it
    while source not in kinds[0]:
        del kinds[0]
    return kinds[0][source] <= max(kind.get(target, 0) for kind in kinds)


def _is_float(element_type: ElementType) -> bool:
    return element_type in _MANTISSA_BITS


PASS = ConvertPrecisions
