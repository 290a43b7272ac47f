"""Tests which builtin ops the library supports, which calls it refuses, and the reasons."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Tensor
from litert.model.writer import write_model
from vendor_reference.compiler.library import ops
from vendor_reference.compiler.library.library_op import choose_ops, library_ops
from vendor_reference.compiler.library_layers import library_layers
from vendor_reference.compiler.opt import transform_text

SHAPE = (2, 3, 4)
SCALE = Quantization([0.5], [3])


def test_the_library_has_the_ops_of_each_family() -> None:
    wanted = {"ADD", "RELU", "LOGISTIC", "QUANTIZE", "RESHAPE", "TRANSPOSE", "CONCATENATION", "PAD"}
    assert wanted <= set(library_ops())
    assert all(name == op.name for name, op in library_ops().items())


def test_ops_are_chosen_by_name_or_all() -> None:
    assert list(choose_ops("mul, ADD,add")) == ["MUL", "ADD"]
    assert choose_ops("all") == choose_ops("Auto") == library_ops()
    assert choose_ops("none") == {}


NEW_OP = '''"""SIGN."""

from vendor_reference.compiler.library.ops.expressions import Unary

OPS = (Unary("SIGN", "Sign", "sign(a)", quantized=()),)
'''


@contextmanager
def new_op(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, text: str) -> Iterator[None]:
    """Adds one file to the library while the context is open."""
    (folder / f"{module}.py").write_text(text)
    with monkeypatch.context() as patch:
        patch.setattr(ops, "__path__", [*ops.__path__, str(folder)])
        library_ops.cache_clear()
        library_layers.cache_clear()
        try:
            yield
        finally:
            library_ops.cache_clear()
            library_layers.cache_clear()
            sys.modules.pop(f"{ops.__name__}.{module}", None)


def test_a_new_op_is_one_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_op(tmp_path, monkeypatch, "sign", NEW_OP):
        b = ModelBuilder()
        b.op("SIGN", [tensor(b)], [output(b)])
        op = b.build().subgraphs[0].ops[0]
        sign = choose_ops("sign")["SIGN"]
        assert sign.refusal(op) == "" and sign.types_text() == "float32, float16"
        text = b"func.func @f(%a: memref<4xf32>, %r: memref<4xf32>) {\n  IERT.Sign(%a, %r)\n  return\n}"
        assert "VPUIP.Command @Sign (%a) -> (%r)" in transform_text(
            text, "a.mlir", "lower-iert-to-vpuip"
        )
    assert "SIGN" not in library_ops()


NEW_OP_OF_TWO_RESULTS = '''"""Both ways."""

from vendor_reference.compiler.library.library_op import LibraryOp, PlacedOp
from vendor_reference.compiler.library.moves import MovedPart, move_kernel
from vendor_reference.custom_layers.kernel_spec import KernelSpec


class BothWays(LibraryOp):
    name = "UNIQUE"
    ie_name = "BothWays"
    num_outputs = (2, 3)

    def mismatch(self, call: PlacedOp) -> str:
        return "" if len({view.shape for view in call.tensors}) == 1 else call.shape_mismatch()

    def kernel(self, call: PlacedOp) -> KernelSpec:
        (x,), (y, z, *_) = call.inputs, call.results
        (size,) = x.shape
        parts = [MovedPart(y, x), MovedPart(z, x.part((size - 1,), (size,), (-1,)), output=1)]
        return move_kernel(self.name, 1, parts, num_outputs=2)


OPS = (BothWays(),)
'''


def test_a_new_op_has_several_results(
    device: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_op(tmp_path, monkeypatch, "both_ways", NEW_OP_OF_TWO_RESULTS):
        b = ModelBuilder()
        x = b.input("x", "float32", (5,))
        y, z = b.op("UNIQUE", [x], [("y", "float32", (5,)), ("z", "float32", (5,))])
        b.output(b.op("NEG", [z], [("w", "float32", (5,))]), y)
        write_model(b.build(), tmp_path / "a.tflite")
        options = ApplyOptions(compiler=CompilerOptions(vendor_options={"reference_ops": "all"}))
        report = apply_plugin(tmp_path / "a.tflite", tmp_path / "b.tflite", options)
        assert all(op.call for op in report.ops)
        values = np.arange(5, dtype=np.float32)
        results = CompiledModel.from_file(str(tmp_path / "b.tflite")).run({"x": values})
        assert results["y"].tolist() == values.tolist()
        assert results["w"].tolist() == (-values[::-1]).tolist()


@pytest.mark.parametrize(
    ("num_outputs", "says"),
    [
        (1, "the op has 1 input and 1 output, but must have 1 input and 2 to 3 outputs"),
        (2, ""),
        (3, ""),
    ],
)
def test_an_op_says_how_many_results_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_outputs: int, says: str
) -> None:
    with new_op(tmp_path, monkeypatch, "both_ways", NEW_OP_OF_TWO_RESULTS):
        b = ModelBuilder()
        b.op(
            "UNIQUE", [tensor(b)], [b.tensor(f"y{i}", "float32", SHAPE) for i in range(num_outputs)]
        )
        both_ways = library_ops()["UNIQUE"]
        assert both_ways.refusal(b.build().subgraphs[0].ops[0]) == says
        assert both_ways.port_mismatch(1, num_outputs) == says


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("ADD,RELU7", "the vendor's library has no builtin op 'RELU7'"),
        ("al", "Did you mean 'all'?"),
        ("atuo", "Did you mean 'auto'?"),
        ("non", "Did you mean 'none'?"),
        ("ADD,auto", "'auto' must be the only value"),
        ("RELU_6", "Did you mean 'RELU6'?"),
        (" , ", "has no op names"),
        ("", "has no op names"),
        ("true", "has no op names"),  # a flag without a value
    ],
)
def test_what_the_library_does_not_have_is_refused(wanted: str, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        choose_ops(wanted)
    assert error.value.status is Status.INVALID_TOOL_CONFIG and says in str(error.value)


def tensor(
    b: ModelBuilder, dtype: str = "float32", shape: tuple[int, ...] = SHAPE, scale: Any = None
) -> Tensor:
    return b.input(f"x{len(b.graph.tensors)}", dtype, shape, quantization=scale)


def output(
    b: ModelBuilder, dtype: str = "float32", shape: tuple[int, ...] = SHAPE, scale: Any = None
) -> Tensor:
    return b.tensor("y", dtype, shape, quantization=scale)


def ints(b: ModelBuilder, *values: int) -> Tensor:
    return b.constant("numbers", np.array(values, np.int32))


Make = Callable[[ModelBuilder], Any]

REFUSED: dict[str, tuple[Make, str]] = {
    "integers divided": (
        lambda b: b.op("DIV", [tensor(b, "int32"), tensor(b, "int32")], [output(b, "int32")]),
        "the tensors have type INT32, but the library supports DIV only for FLOAT32, FLOAT16",
    ),
    "two types": (
        lambda b: b.op("ADD", [tensor(b), tensor(b, "int32")], [output(b)]),
        "the tensors have types INT32 and FLOAT32, which must be equal",
    ),
    "shapes that do not fit": (
        lambda b: b.op("ADD", [tensor(b), tensor(b, shape=(3,))], [output(b)]),
        "the result tensor<2x3x4xf32> does not fit the operands tensor<2x3x4xf32>, tensor<3xf32>",
    ),
    "an activation of another kind": (
        lambda b: b.op("MUL", [tensor(b)] * 2, [output(b)], fused_activation_function="TANH"),
        "fused activation TANH is not supported",
    ),
    "integers without a scale": (
        lambda b: b.op("RELU", [tensor(b, "int8")], [output(b, "int8", scale=SCALE)]),
        "operand 0 of type INT8 does not have exactly one scale",
    ),
    "a scale that is no number": (
        lambda b: b.op(
            "TANH",
            [tensor(b, "int8", scale=Quantization([float("nan")]))],
            [output(b, "int8", scale=SCALE)],
        ),
        "operand 0 of type INT8 does not have exactly one scale",
    ),
    "a scale that is too small": (
        lambda b: b.op(
            "TANH", [tensor(b, "int8", scale=SCALE)], [output(b, "int8", scale=Quantization([1e-45]))]
        ),
        "the result of type INT8 does not have exactly one scale",
    ),
    "a zero point outside of the range of its type": (
        lambda b: b.op(
            "TANH", [tensor(b, "int8", scale=Quantization([0.5], [-129]))], [output(b, "int8", scale=SCALE)]
        ),
        "operand 0 of type INT8 does not have exactly one scale",
    ),
    "the greater of different scales": (
        lambda b: b.op(
            "MAXIMUM",
            [tensor(b, "int8", scale=SCALE), tensor(b, "int8", scale=Quantization([0.25], [3]))],
            [output(b, "int8", scale=SCALE)],
        ),
        "operand 0 and operand 1 have different scales",
    ),
    "a cast to text": (
        lambda b: b.op("CAST", [tensor(b)], [output(b, "string")]), "the library cannot make STRING from FLOAT32"
    ),
    "channels that are not there": (
        lambda b: b.op(
            "DEQUANTIZE",
            [tensor(b, "int8", scale=Quantization([0.5] * 3, quantized_dimension=2))],
            [output(b)],
        ),
        "the library cannot use 3 scales along dimension 2 of shape [2, 3, 4]",
    ),
    "a reshape to fewer elements": (
        lambda b: b.op("RESHAPE", [tensor(b)], [output(b, shape=(5,))]),
        "the result tensor<5xf32> does not fit the operands tensor<2x3x4xf32>",
    ),
    "a reshaped constant": (
        lambda b: b.op("RESHAPE", [ints(b, 1, 2)], [output(b, "int32", (1, 2))]), "the operand is a constant"
    ),
    "a computed permutation": (
        lambda b: b.op("TRANSPOSE", [tensor(b), tensor(b, "int32", (3,))], [output(b)]),
        "the permutation is not a constant",
    ),
    "no permutation": (
        lambda b: b.op("TRANSPOSE", [tensor(b), ints(b, 0, 0, 1)], [output(b)]),
        "(0, 0, 1) is not a permutation of 3 dimensions",
    ),
    "a permutation that is cut": (
        lambda b: b.op(
            "TRANSPOSE", [tensor(b), b.constant("c", b"\x01\0\0", "int8", (3,))], [output(b)]
        ),
        "the permutation is not a constant",
    ),
    "joined scales": (
        lambda b: b.op(
            "CONCATENATION",
            [tensor(b, "int8", (4,), SCALE), tensor(b, "int8", (4,), Quantization([1.0], [0]))],
            [output(b, "int8", (8,), SCALE)],
            axis=0,
        ),
        "different scales",
    ),
    "an axis that is not there": (
        lambda b: b.op("CONCATENATION", [tensor(b)], [output(b)], axis=3),
        "along dimension 3",
    ),
    "joined sizes": (
        lambda b: b.op("CONCATENATION", [tensor(b), tensor(b)], [output(b, shape=(2, 3, 7))], axis=2),
        "the result tensor<2x3x7xf32> does not fit the operands",
    ),
    "a padding of less than nothing": (
        lambda b: b.op("PAD", [tensor(b, shape=(4,)), ints(b, -1, 2)], [output(b, shape=(5,))]),
        "the paddings are [-1] before and [2] after, but each list needs one number",
    ),
    "a padding that makes another shape": (
        lambda b: b.op("PAD", [tensor(b, shape=(4,)), ints(b, 1, 2)], [output(b, shape=(9,))]),
        "the result tensor<9xf32> does not fit the operands tensor<4xf32>",
    ),
    "padding by a computed value": (
        lambda b: b.op(
            "PADV2", [tensor(b, shape=(4,)), ints(b, 1, 0), tensor(b, shape=(1,))], [output(b, shape=(5,))]
        ),
        "the padding value is not one constant number",
    ),
    "three operands of two": (
        lambda b: b.op("SUB", [tensor(b)] * 3, [output(b)]), "the op has 3 inputs and 1 output, "
    ),
    "no operand": (lambda b: b.op("RELU", [], [output(b)]), "the op has 0 inputs"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_kernel_cannot_do_is_refused_with_a_reason(case: str) -> None:
    make, says = REFUSED[case]
    b = ModelBuilder()
    make(b)
    op = b.build().subgraphs[0].ops[0]
    assert says in library_ops()[op.name].refusal(op)


def test_ops_without_inputs_or_outputs_are_refused_by_all() -> None:
    for name, rule in library_ops().items():
        for outputs in (0, 1):
            b = ModelBuilder()
            b.op(name, [None] * outputs, [output(b)] * outputs)
            op = b.build().subgraphs[0].ops[0]
            assert rule.refusal(op), name
