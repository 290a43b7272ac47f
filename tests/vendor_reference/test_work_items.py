"""How many work items run: formulas over the sizes of a tensor."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.compiler.kernel_spec import KernelSpec, TensorArgument
from vendor_reference.compiler.work_items import OpShapes, evaluate_work_sizes

Shape = tuple[int, ...]


def global_size(text: str, given: Shape, output: Shape, *, from_end: bool) -> int:
    """The global size `text` of an op with one input, whose sizes it is over."""
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
        ((3, 4), (7,), (0, 0, 0, 4)),  # Y only where the output has two dimensions
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
    with pytest.raises(LiteRtError, match="input 1 of an op that has 1 inputs"):
        evaluate_work_sizes(spec, OpShapes(((4,),), ((4,),)))
