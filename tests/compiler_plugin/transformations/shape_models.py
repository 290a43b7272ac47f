"""Random small models of ops that change shapes; output shapes are not set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from litert.model.builder import ModelBuilder
from litert.model.graph import Model, Tensor

Out = tuple[str, str, tuple[int, ...]]


class RandomModel:
    """Adds ops to a model; each op reads a randomly chosen tensor."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.b = ModelBuilder()
        self.draw = draw
        self.pictures: list[Tensor] = []  # float32 tensors of rank 4
        self.count = 0

    def out(self, element_type: str = "float32") -> Out:
        self.count += 1
        return (f"t{self.count}", element_type, ())

    def ints(self, *values: int) -> Tensor:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.array(values, np.int32))

    def number(self, value: int) -> Tensor:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.int32(value))

    def op(
        self, name: str, inputs: Sequence[Tensor | None], kind: str = "float32", **options: Any
    ) -> Any:
        return self.b.op(name, inputs, [self.out(kind)], **options)

    def picture(self) -> Tensor:
        return self.draw(st.sampled_from(self.pictures))  # type: ignore[no-any-return]

    def add(self) -> None:
        kind = self.draw(st.sampled_from(sorted(_KINDS)))
        made = _KINDS[kind](self)
        if made is not None:
            self.pictures.append(made)


def _pool(m: RandomModel) -> Tensor:
    padding, stride = m.draw(st.sampled_from(["SAME", "VALID"])), m.draw(st.integers(1, 2))
    return m.op(  # type: ignore[no-any-return]
        "MAX_POOL_2D", [m.picture()], padding=padding, stride_w=stride, stride_h=stride,
        filter_width=2, filter_height=2,
    )  # fmt: skip


def _pad(m: RandomModel) -> Tensor:
    sides = [m.draw(st.integers(0, 2)) for _ in range(4)]
    pads = m.b.constant(
        f"pads{m.count}", np.array([[0, 0], sides[:2], sides[2:], [0, 0]], np.int32)
    )
    return m.op("PAD", [m.picture(), pads])  # type: ignore[no-any-return]


def _transpose(m: RandomModel) -> Tensor:
    return m.op("TRANSPOSE", [m.picture(), m.ints(0, 2, 1, 3)])  # type: ignore[no-any-return]


def _flatten(m: RandomModel) -> Tensor:
    """Adds a flatten as the converter writes it: ops compute the target shape."""
    x = m.picture()
    shape = m.op("SHAPE", [x], "int32", out_type=2)
    batch = m.op(
        "STRIDED_SLICE", [shape, m.ints(0), m.ints(1), m.ints(1)], "int32", shrink_axis_mask=1
    )
    wanted = m.op(
        "PACK", [batch, m.number(-1), m.number(1), m.number(1)], "int32", values_count=4, axis=0
    )
    return m.op("RESHAPE", [x, wanted])  # type: ignore[no-any-return]


def _fold_rows(m: RandomModel) -> Tensor:
    return m.op("RESHAPE", [m.picture(), m.ints(-1, 1, 1, 1)])  # type: ignore[no-any-return]


def _slice(m: RandomModel) -> Tensor:
    x = m.picture()
    return m.op(  # type: ignore[no-any-return]
        "STRIDED_SLICE", [x, m.ints(0, 0, 0, 0), m.ints(0, 1, 0, 0), m.ints(1, 1, 2, 1)],
        begin_mask=15, end_mask=13,
    )  # fmt: skip


def _mean(m: RandomModel) -> Tensor:
    axes = m.draw(st.sampled_from([(1,), (1, 2), (3,)]))
    return m.op("MEAN", [m.picture(), m.ints(*axes)], keep_dims=True)  # type: ignore[no-any-return]


def _concat(m: RandomModel) -> Tensor:
    x = m.picture()
    axis = m.draw(st.integers(0, 3))
    return m.op("CONCATENATION", [x, x], axis=axis)  # type: ignore[no-any-return]


def _add(m: RandomModel) -> Tensor:
    x = m.picture()
    row = m.op("MEAN", [x, m.ints(1)], keep_dims=True)
    return m.op("ADD", [x, row])  # type: ignore[no-any-return]


def _resize(m: RandomModel) -> Tensor:
    """Adds a resize to twice the size, which ops compute."""
    x = m.picture()
    shape = m.op("SHAPE", [x], "int32", out_type=2)
    size = m.op("SLICE", [shape, m.ints(1), m.ints(2)], "int32")
    twice = m.op("MUL", [size, m.number(2)], "int32")
    return m.op("RESIZE_NEAREST_NEIGHBOR", [x, twice])  # type: ignore[no-any-return]


def _argmax(m: RandomModel) -> Tensor:
    index = m.op("ARG_MAX", [m.picture(), m.number(1)], "int32", output_type=2)
    real = m.op("CAST", [index], in_data_type=2, out_data_type=0)
    return m.op("EXPAND_DIMS", [real, m.number(1)])  # type: ignore[no-any-return]


def _split(m: RandomModel) -> Tensor:
    x = m.picture()
    doubled = m.op("CONCATENATION", [x, x], axis=2)
    halves = m.b.op("SPLIT", [m.number(2), doubled], [m.out(), m.out()], num_splits=2)
    return halves[0]  # type: ignore[no-any-return]


_KINDS: dict[str, Callable[[RandomModel], Tensor | None]] = {
    "add": _add,
    "argmax": _argmax,
    "concat": _concat,
    "flatten": _flatten,
    "mean": _mean,
    "pad": _pad,
    "pool": _pool,
    "resize": _resize,
    "rows": _fold_rows,
    "slice": _slice,
    "split": _split,
    "transpose": _transpose,
}


@st.composite
def shape_models(
    draw: Callable[[st.SearchStrategy[Any]], Any], *, resizable: bool = False
) -> Model:
    """Draws a model of up to eight groups of ops, whose outputs have no shapes yet."""
    m = RandomModel(draw)
    shape = (draw(st.integers(1, 2)), draw(st.integers(3, 9)), draw(st.integers(3, 9)), 3)
    unknown = draw(st.sets(st.integers(0, 2), min_size=1)) if resizable else set()
    signature = tuple(-1 if i in unknown else size for i, size in enumerate(shape))
    x = m.b.input("x", "float32", shape, shape_signature=signature if resizable else None)
    m.pictures.append(x)
    for _ in range(draw(st.integers(1, 8))):
        m.add()
    m.b.output(*m.pictures[1:])
    return m.b.build()
