"""Tests the number of work items: formulas over the sizes of a tensor."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.work_items import OpShapes, evaluate_work_sizes
from vendor_reference.custom_layers.kernel_spec import KernelSpec, TensorArgument

Shape = tuple[int, ...]


def global_size(text: str, given: Shape, output: Shape, *, from_end: bool) -> int:
    """Evaluates the formula `text` over the input's sizes, for an op with one input."""
    spec = KernelSpec(
        "L",
        (),
        global_size=(text,),
        sizes_of=TensorArgument(is_output=False, index=0),
        counts_from_end=from_end,
    )
    ((size,), _) = evaluate_work_sizes(spec, OpShapes((given,), (output,)))
    assert isinstance(size, int)
    return size


@pytest.mark.parametrize(
    ("given", "output", "dims"),
    [
        ((2, 3, 4, 5), (1, 1, 1, 1), (2, 5, 3, 4)),  # N, H, W, C: B, F, Y, X
        ((3, 4), (3, 4), (0, 0, 3, 4)),
        ((3, 4), (7,), (0, 0, 0, 4)),  # Y counts only if the output has two dimensions
        ((2, 3, 4), (1, 1, 1), (0, 2, 3, 4)),
        ((4,), (1, 1, 1, 1), (1, 1, 1, 4)),
    ],
)
def test_sizes_of_an_input_are_counted_from_its_end(
    given: Shape, output: Shape, dims: Shape
) -> None:
    for letter, size in zip("BFYX", dims, strict=True):
        assert global_size(f"1+{letter}", given, output, from_end=True) == 1 + size


def test_sizes_of_a_described_tensor_are_those_that_kernels_see() -> None:
    assert global_size("B*1000+F*100+Y*10+X", (3, 4), (7,), from_end=False) == 3411


def test_an_input_that_the_op_does_not_have_has_no_sizes() -> None:
    spec = KernelSpec("L", (), global_size=("X",), sizes_of=TensorArgument(False, 1))
    with pytest.raises(
        LiteRtError,
        match="formulas refer to input 1, which does not exist: the only input has index 0",
    ):
        evaluate_work_sizes(spec, OpShapes(((4,),), ((4,),)))


IMAGE = (2, 4, 5, 3)  # N, H, W, C: B, F, Y, X are 2, 3, 4, 5


def evaluate(
    *global_size: str, local: tuple[str, ...] = (), output: Shape = IMAGE
) -> tuple[list[int], list[int]]:
    spec = KernelSpec("L", (), global_size=global_size, local_size=local)
    found = evaluate_work_sizes(spec, OpShapes((), (output,)))
    return list(found[0]), list(found[1])


def test_without_sizes_there_is_one_work_item_for_each_element_of_the_output() -> None:
    assert evaluate() == ([120], [])
    assert evaluate(output=()) == ([1], [])


def test_sizes_are_formulas_of_the_outputs_dimensions() -> None:
    assert evaluate("X", "Y", "B*F") == ([5, 4, 6], [])
    assert evaluate(" ((x + 3)/4)*4 ", local=("4 ",)) == ([8], [4])
    assert evaluate("B", "F", output=(7, 6)) == ([7, 6], [])


@pytest.mark.parametrize(
    ("global_size", "local", "says"),
    [
        (("X/(Y-4)",), (), "formula 'X/(Y-4)' divides by zero"),
        (("X%0",), (), "formula 'X%0' divides by zero"),
        (("B-X",), (), "formula 'B-X' has the value -3 for B=2, F=3, Y=4, X=5"),
        (("X*1000000000",), (), "formula 'X*1000000000' has the value 5000000000 for"),
        (
            ("X", "Y*0"),
            (),
            "the global size is [5, 0], so that no work item would write the outputs",
        ),
        (("X",), ("4",), "global size [5] is not a multiple of local size [4]"),
        (
            ("X",),
            ("0",),
            "local size [0] contains a 0, so that a work group would have no work items",
        ),
    ],
)
def test_sizes_that_cannot_be_are_errors(
    global_size: tuple[str, ...], local: tuple[str, ...], says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        evaluate(*global_size, local=local)
    assert error.value.status is Status.INVALID_ARGUMENT and error.value.hint
    assert says in error.value.what
