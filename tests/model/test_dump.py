"""Tests models as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.blob import Blob
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.dump import attribute, dump, quote, real
from litert.model.graph import Appended, Model
from litert.model.reader import read_model
from litert.model.table import Table

Golden = Callable[[str, str], None]


def all_sorts() -> Model:
    """Returns a model with everything that a dump can show."""
    b = ModelBuilder(description='All sorts, "quoted"')
    x = b.input("x", "float32", (1, 8, 8, 4), shape_signature=(-1, 8, 8, 4))
    w = b.constant("w", np.arange(8 * 9 * 4).reshape(8, 3, 3, 4).astype(np.float32))
    y = b.op(
        "CONV_2D", [x, w, None], [("y", "float32", (1, 8, 8, 8))],
        version=2, stride_h=1, stride_w=1, padding="SAME", fused_activation_function="RELU6",
    )  # fmt: skip
    z = b.custom(
        "MyOp", [y], [("z", "float32", (1, 8, 8, 8))],
        options={"alpha": 0.1, "taps": [1, 2, 3], "name": "ä", "nested": {"on": True}},
    )  # fmt: skip
    b.custom("Raw", [z], [("r", "float32", (4,)), ("s", "int32", ())], options=b"\1\0\0\0\2\0\0\0")
    b.constant("shape", [1, -1], "int32")
    b.constant("scale", np.array(0.1, np.float32))
    b.constant("half", np.array([0.5, -2], np.float16))
    scales = b.constant("scales", np.ones(4, np.float16))
    b.constant(
        "blocks", b"\x21" * 64, "int4", (4, 32),
        quantization=Quantization(blockwise=BlockwiseQuantization(scales, None, 32)),
    )  # fmt: skip
    b.constant(
        "sparse",
        b"\1\2",
        "int8",
        (4,),
        sparsity=Table.make("SparsityParameters", traversal_order=(0,)),
    )
    b.tensor("state", "float32", (4,), is_variable=True)
    b.tensor("q", "int8", (4,), quantization=Quantization((0.5,), (-3,), min=(-62.5,), max=(65.0,)))
    b.tensor("channels", "uint8", (2, 3), quantization=Quantization((0.25, 0.1), (0, 7), 0))
    b.tensor("many", "int8", (9, 3), quantization=Quantization((0.5,) * 9, (0,) * 9, 0))
    b.tensor("range", "float32", (1,), quantization=Quantization(min=(-1.0,), max=(1.0,)))
    b.output(z)
    b.signature("serving_default", {"image": x}, {"mask": z})
    b.signature("again, with spaces")
    other = b.subgraph("not a symbol")
    other.output(other.input("a\n\x00\udcff", "string", ()))
    b.metadata("min_runtime_version", b"1.5.0".ljust(16, b"\0"))
    b.metadata("large", bytes(range(256)))
    return b.build()


def test_all_sorts_of_things_are_shown(golden: Golden) -> None:
    golden("all_sorts.mlir", dump(all_sorts()))


@pytest.mark.parametrize("name", ["custom_sinh", "max_unpooling_2d"])
def test_a_real_model_is_shown(models: Path, golden: Golden, name: str) -> None:
    with read_model(models / f"{name}.tflite") as model:
        golden(f"{name}.mlir", dump(model))


def test_an_npu_call_shows_its_module_and_not_its_offset() -> None:
    b = ModelBuilder()
    b.output(b.custom(DISPATCH_OP, [b.input("x", "float32", (1,))], [("y", "float32", (1,))]))
    model = b.build()
    model.byte_code.append(Appended(Blob(b"code"), [(model.subgraphs[0].ops[0], "Partition_0")]))
    text = dump(model)
    assert '{custom_code = "DISPATCH_OP", byte_code = 0, function = "Partition_0"}' in text
    assert '"tfl.byte_code"() {index = 0, value = "0x636F6465"}' in text


def test_the_same_model_gives_the_same_text() -> None:
    assert dump(all_sorts()) == dump(all_sorts())


def test_no_name_breaks_a_line_or_leaves_ascii() -> None:
    b = ModelBuilder(description='"}\n\u202e')
    b.output(b.input('x" loc("y', "float32", (1,)))
    b.signature('"\n', {"\x1b[31m": b.graph.inputs[0]})
    text = dump(b.build())
    assert text.isascii() and text.replace("\n", "").isprintable()
    assert len(text.splitlines()) == 6


@given(st.text())
def test_a_string_stays_between_its_quotes(text: str) -> None:
    inner = quote(text)[1:-1]
    assert inner.isascii() and inner.replace("\\\\", "").replace("\\22", "").find('"') < 0


@given(st.floats(width=32))
def test_a_number_shows_all_of_a_float32(value: float) -> None:
    assert repr(np.float32(real(value))) == repr(np.float32(value))


def test_what_few_ops_and_tensors_have_is_shown() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (2,))
    y = b.custom("MyOp", [x], [("y", "float32", (2,))])
    b.output(y)
    model = b.build()
    (op,) = model.subgraphs[0].ops
    op.intermediates, op.mutating_variable_inputs = (x, None), (True,)
    x.quantization = Quantization(custom=b"\1\2")
    text = dump(model)
    assert "intermediates = [%arg0, none]" in text and "mutating_variable_inputs = [true]" in text
    assert "!quant.custom<f32, " in text


def test_a_number_beyond_float32_shows_all_of_it() -> None:
    assert real(1e300) == "1e+300" and real(-math.nan) == "nan" == real(math.nan)


def test_a_value_that_is_nothing_is_shown() -> None:
    assert attribute({"none": None}) == "{none = unit}"
