from __future__ import annotations

import struct
from typing import Any

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.assembler import Assembler
from litert.model.flatbuffer import FlatbufferBytes
from litert.model.graph import Model, Op, OperatorCode, Subgraph
from litert.model.reader import read_model
from litert.model.table import Table
from litert.model.writer import to_bytes

CONV = 3


def written(options: Table) -> Table:
    """Writes and reads a model with these options of an op, and returns the options."""
    code = OperatorCode(CONV)
    op = Op(code, [], [], options)
    model = Model(operator_codes=[code], subgraphs=[Subgraph("main", ops=[op])])
    found = read_model(to_bytes(model)).subgraphs[0].ops[0].options
    assert found is not None
    return found


def test_fields_have_their_values_or_the_schema_s_defaults() -> None:
    for options in (made := Table.make("Conv2DOptions", stride_w=2, padding=1), written(made)):
        assert options.type_name == "Conv2DOptions"
        assert options.get("stride_w") == 2
        assert options.get("stride_h") == 0
        assert options.get("dilation_w_factor") == 1
        assert dict(options.fields()) == {"padding": 1, "stride_w": 2}


@pytest.mark.parametrize(
    "options",
    [
        Table.make("AddOptions"),
        Table.make("AddOptions", pot_scale_int16=False),
        Table.make("SoftmaxOptions", beta=0.5),
        Table.make("ReshapeOptions", new_shape=(1, -1, 3)),
        Table.make("ReshapeOptions", new_shape=()),
        Table.make("VarHandleOptions", container="c", shared_name=""),
        Table.make("RandomOptions", seed=-(2**63), seed2=7),
        Table.make("BucketizeOptions", boundaries=(0.0, 0.5)),
        Table.make("FullyConnectedOptions", quant_spec=b"\1\2\3", keep_num_dims=True),
    ],
    ids=repr,
)
def test_what_is_made_is_written_and_read(options: Table) -> None:
    assert written(options) == options
    assert repr(written(options)) == repr(options)


def test_a_table_in_a_table_is_read() -> None:
    out = Assembler()
    quantization = out.table([], [(6, "i", 3)])
    data = bytes(out.finish(out.table([(4, quantization)]), b"TFL3"))
    source = FlatbufferBytes(memoryview(data), "model.tflite")
    tensor = Table("Tensor", source, source.target(0))
    assert tensor.get("quantization").get("quantized_dimension") == 3
    assert tensor != "tensor"
    with pytest.raises(LiteRtError) as error:
        Table("Tensor", source, len(data)).get("quantization")
    assert error.value.status is Status.INVALID_FLATBUFFER


def test_a_union_sets_its_number() -> None:
    blockwise = Table.make("BlockwiseQuantization", scales=3, zero_points=-1, block_size=32)
    table = Table.make("QuantizationParameters", details=blockwise)
    assert table.get("details_type") == 2
    changed = table.with_fields(details=Table.make("CustomQuantization", custom=b"x"))
    assert changed.get("details_type") == 1
    assert "details_type" not in table.with_fields(details=None).fields()


def test_with_fields_changes_a_copy() -> None:
    options = written(Table.make("Conv2DOptions", stride_w=2, stride_h=2))
    changed = options.with_fields(stride_w=1, padding=1)
    assert dict(changed.fields()) == {"padding": 1, "stride_w": 1, "stride_h": 2}
    assert options.get("stride_w") == 2
    assert options.with_fields(stride_w=None) == Table.make("Conv2DOptions", stride_h=2)


def test_bytes_are_viewed() -> None:
    options = written(Table.make("FullyConnectedOptions", quant_spec=b"\1\2\3"))
    assert isinstance(options.get("quant_spec"), memoryview)
    assert bytes(options.get("quant_spec")) == b"\1\2\3"


@pytest.mark.parametrize(
    ("type_name", "fields"),
    [
        ("Conv2DOptions", {"stride_w": "2"}),
        ("Conv2DOptions", {"stride_w": 2**31}),
        ("Conv2DOptions", {"padding": 200}),
        ("Conv2DOptions", {"stride": 2}),
        ("ReshapeOptions", {"new_shape": 3}),
        ("ReshapeOptions", {"new_shape": (0.5,)}),
        ("VarHandleOptions", {"container": b"c"}),
        ("SoftmaxOptions", {"beta": "x"}),
        ("FullyConnectedOptions", {"quant_spec": (256,)}),
        ("QuantizationParameters", {"details": Table.make("AddOptions")}),
        ("SparsityParameters", {"dim_metadata": (Table.make("AddOptions"),)}),
        ("Tensor", {"quantization": Table.make("AddOptions")}),
        ("Nonsense", {}),
    ],
)
def test_a_value_that_does_not_fit_is_refused(type_name: str, fields: dict[str, Any]) -> None:
    with pytest.raises(LiteRtError) as error:
        Table.make(type_name, **fields)
    assert error.value.status is Status.INVALID_ARGUMENT


def test_a_float_comes_out_bit_by_bit() -> None:
    """Conversion to a Python float would turn a signalling NaN into a quiet one."""
    code = OperatorCode(25)
    table = Table.make("QuantizationParameters", scale=(1.5,))
    softmax = Op(code, [], [], Table.make("SoftmaxOptions", beta=1.5))
    model = Model(operator_codes=[code], subgraphs=[Subgraph(ops=[softmax])])
    data = to_bytes(model).replace(struct.pack("<f", 1.5), b"\1\0\x80\x7f")
    assert b"\1\0\x80\x7f" in to_bytes(read_model(data))
    assert table.get("scale") == (1.5,)
