"""Functions of shapes: what finds an output's shape of those of inputs, by formulas.

    func.func private @shape_of_Upscale(!shape.shape) -> !shape.shape
        attributes {IE.formulas = ["B", "F*2"], IE.input_shapes = [unit, array<i64: 4>]}

Its arguments are the shapes of the layer's inputs that a run tells; the others it holds itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.kernel_dims import kernel_dims
from litert.core.sizes import Size
from litert.core.status import Status
from vendor_reference.compiler.ir.shape import ShapeType
from vendor_reference.compiler.ir.shape_attributes import Shape, read_shapes, shapes_attribute

FORMULAS = "IE.formulas"
INPUT_SHAPES = "IE.input_shapes"


@dataclass(frozen=True, slots=True)
class ShapeFunction:
    """A function of shapes.

    Attributes:
      formulas: one for each dimension of the result.
      inputs: the layer's inputs: None for one whose shape is passed.
    """

    formulas: tuple[str, ...]
    inputs: tuple[Shape | None, ...]

    def evaluate(self, passed: Sequence[Sequence[Size]]) -> tuple[Size, ...]:
        """The result's shape, of those that are passed.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a formula has no value.
        """
        given = iter(passed)
        inputs = [next(given) if shape is None else shape for shape in self.inputs]
        dims = kernel_dims(inputs[0]) if inputs else (1, 1, 1, 1)
        return tuple(_formula(text).resolve(dims, inputs) for text in self.formulas)


def make_shape_function(name: str, function: ShapeFunction) -> FuncOp:
    """The function in the IR."""
    count = sum(shape is None for shape in function.inputs)
    made = FuncOp.external(name, [ShapeType()] * count, [ShapeType()])
    made.attributes[FORMULAS] = ArrayAttr([StringAttr(text) for text in function.formulas])
    made.attributes[INPUT_SHAPES] = shapes_attribute(function.inputs)
    return made


def find_shape_function(function: FuncOp) -> ShapeFunction | None:
    """The function of shapes that one in the IR is; None for any other.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for wrong attributes.
    """
    formulas = function.attributes.get(FORMULAS)
    if formulas is None:
        return None
    held = function.attributes.get(INPUT_SHAPES)
    if not isinstance(formulas, ArrayAttr) or not isinstance(held, ArrayAttr):
        raise _error(function, formulas)
    texts = [text.data for text in formulas.data if isinstance(text, StringAttr)]
    inputs = read_shapes(function.attributes, INPUT_SHAPES, len(held.data))
    passed: Sequence[Attribute] = function.function_type.inputs.data
    if len(texts) != len(formulas.data) or inputs.count(None) > len(passed):
        raise _error(function, formulas)
    return ShapeFunction(tuple(texts), tuple(inputs))


@lru_cache(maxsize=1024)
def _formula(text: str) -> Formula:
    return Formula(text)


def _error(function: FuncOp, found: object) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_ARGUMENT,
        f"{FORMULAS} is {found}",
        f"function '{function.sym_name.data}'",
        f"Formulas are texts, and {INPUT_SHAPES} has unit for each shape that is passed.",
    )
