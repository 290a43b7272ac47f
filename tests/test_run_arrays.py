"""Tests `CompiledModel.run`, which takes and returns arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dispatch.tensor_buffer import TensorBuffer
from litert.compiled_model import CompiledModel
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from litert.runtime import host_memory, planned_subgraph

X, Y = np.array([[1, 2]], np.float32), np.array([[5, 7]], np.float32)


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    """A model with a signature for `difference = x - y` with any number of rows, and a signature `square`."""
    builder = ModelBuilder()
    tensors = [builder.input(n, "float32", (1, 2), shape_signature=(-1, 2)) for n in ("x", "y")]
    difference = builder.tensor("difference", "float32", (1, 2), shape_signature=(-1, 2))
    builder.output(builder.op("SUB", tensors, [difference]))
    builder.signature("minus")
    other = builder.subgraph("other")
    v = other.input("v", "float32", (2,))
    other.output(other.op("MUL", [v, v], [("w", "float32", (2,))]))
    other.signature("square")
    return CompiledModel.from_buffer(to_bytes(builder.build()))


def test_arrays_are_given_and_come_by_name(model: CompiledModel) -> None:
    found = model.run({"y": Y, "x": X})
    assert list(found) == ["difference"]
    np.testing.assert_array_equal(found["difference"], X - Y)
    np.testing.assert_array_equal(model.run({"v": X[0]}, "square")["w"], X[0] ** 2)


@pytest.mark.parametrize("rows", [3, 1, 7, 1])
def test_arrays_of_other_shapes_resize_the_model(model: CompiledModel, rows: int) -> None:
    x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    np.testing.assert_array_equal(model.run({"x": x, "y": x / 2})["difference"], x / 2)


def test_a_new_shape_takes_new_memory_only_if_it_is_larger(
    model: CompiledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def count(
        tensor_type: RankedTensorType, size: int, *, has_all_pages: bool = False
    ) -> TensorBuffer:
        made.append(size)
        return host_memory.allocate(tensor_type, size, has_all_pages=has_all_pages)

    monkeypatch.setattr(planned_subgraph, "allocate", count)
    for rows, size, times in (
        (20, 160, 3),
        (4, 0, 0),
        (20, 0, 0),
        (1, 0, 0),
        (21, 320, 3),
        (40, 0, 0),
    ):
        made.clear()
        x = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        np.testing.assert_array_equal(model.run({"x": x, "y": x / 2})["difference"], x / 2)
        assert made == [size] * times  # memory that is too small is doubled


def test_what_becomes_an_array_is_one(model: CompiledModel) -> None:
    found = model.run({"x": [[1, 2.5]], "y": ((0, 1),)})
    np.testing.assert_array_equal(found["difference"], [[1, 1.5]])


def test_arrays_need_not_be_contiguous(model: CompiledModel) -> None:
    wide = np.arange(8, dtype=np.float32).reshape(2, 4)
    found = model.run({"x": wide[:, ::2], "y": wide[::-1, 1::2]})
    np.testing.assert_array_equal(found["difference"], wide[:, ::2] - wide[::-1, 1::2])


def test_results_are_the_caller_s(model: CompiledModel) -> None:
    first = model.run({"x": X, "y": Y})["difference"]
    kept = first.copy()
    model.run({"x": Y, "y": X})
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(model.run({"x": X, "y": Y})["difference"], kept)


def test_buffers_and_arrays_may_take_turns(model: CompiledModel) -> None:
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    inputs[1].write(Y)
    for _ in range(2):
        np.testing.assert_array_equal(model.run({"x": Y, "y": X})["difference"], Y - X)
        model.run_by_index(0, inputs, outputs)
        np.testing.assert_array_equal(outputs[0].read((1, 2), np.float32), X - Y)


WRONG: dict[str, tuple[Any, str | None, Status, str]] = {
    "an input too few": (
        {"x": X},
        None,
        Status.MISSING_INPUT_TENSOR,
        "no array was given for input 'y'",
    ),
    "an input too many": (
        {"x": X, "y": Y, "z": Y},
        None,
        Status.NOT_FOUND,
        r"the model has no input 'z' \(signature 'minus'\)\. The inputs are x, y\.",
    ),
    "another type": ({"x": X.astype(int), "y": Y}, None, Status.INVALID_ARGUMENT, "astype"),
    "another shape": ({"x": X[:, :1], "y": Y}, None, Status.INVALID_ARGUMENT, r"\[1, 1\]"),
    "shapes that disagree": (
        {"x": [X[0]] * 2, "y": [X[0]] * 3},
        None,
        Status.RUNTIME_FAILURE,
        "cannot prepare",
    ),
    "no array at all": (
        {"x": "text", "y": Y},
        None,
        Status.INVALID_ARGUMENT,
        "the value cannot be converted to an array of type float32",
    ),
    "None": ({"x": None, "y": Y}, None, Status.INVALID_ARGUMENT, r"the given shape is \[\]"),
    "an array without a name": (
        X,
        None,
        Status.INVALID_ARGUMENT,
        r"ndarray, which is not a mapping.*x, y",
    ),
    "a list of arrays": (
        [X, Y],
        None,
        Status.INVALID_ARGUMENT,
        r"list, which is not a mapping.*x, y",
    ),
    "no such signature": (
        {},
        "none",
        Status.NOT_FOUND,
        r"no signature 'none'\. The signatures are minus, square",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_cannot_be_run_says_why_and_the_next_run_is_good(
    model: CompiledModel, kind: str
) -> None:
    inputs, signature, status, message = WRONG[kind]
    with pytest.raises(LiteRtError, match=message) as error:
        model.run(inputs, signature)
    assert error.value.status is status
    np.testing.assert_array_equal(model.run({"x": X, "y": Y})["difference"], X - Y)


def test_an_error_of_a_model_without_signatures_names_the_main_subgraph() -> None:
    b = ModelBuilder()
    b.output(b.op("NEG", [b.input("x", "float32", (2,))], [("y", "float32", (2,))]))
    with CompiledModel.from_buffer(to_bytes(b.build())) as model:
        with pytest.raises(LiteRtError) as error:
            model.run({})
        assert error.value.where == "the main subgraph"
        with pytest.raises(LiteRtError, match="the model has no signatures") as error:
            model.run({}, "serving_default")
        assert error.value.hint.startswith("Omit the signature")
