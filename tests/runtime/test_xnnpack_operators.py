"""Tests the mapping from XNNPACK's operators to the ops of a model."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from litert.runtime.xnnpack_operators import group_operators

CONV = "Convolution (NHWC, F32) IGEMM"
FULLY_CONNECTED = "Fully Connected (NC, F32) GEMM"

CASES = {
    "one for one": (["ADD", "MUL"], ["Add (ND)", "Multiply (ND)"], ["ADD", "MUL"]),
    "a convolution of 1x1": (["CONV_2D"], [FULLY_CONNECTED], ["CONV_2D"]),
    "constants are converted once": (
        ["DEQUANTIZE", "DEQUANTIZE", "CONV_2D", "DEQUANTIZE", "CONV_2D"],
        [CONV, CONV],
        ["DEQUANTIZE DEQUANTIZE CONV_2D", "DEQUANTIZE CONV_2D"],
    ),
    "an activation moves into its convolution": (
        ["CONV_2D", "RELU", "CONV_2D"],
        [CONV, CONV],
        ["CONV_2D RELU", "CONV_2D"],
    ),
    "an activation of its own": (
        ["ADD", "RELU", "ADD"],
        ["Add (ND)", "Clamp (NC)", "Add (ND)"],
        ["ADD", "RELU", "ADD"],
    ),
    "an op's activation becomes an operator": (
        ["ADD", "CONV_2D"],
        ["Add (ND)", "Clamp (NC)", CONV],
        ["ADD", "CONV_2D"],
    ),
    "padding moves into the op behind it": (
        ["ADD", "PAD", "CONV_2D"],
        ["Add (ND)", CONV],
        ["ADD", "PAD CONV_2D"],
    ),
    "padding stays": (
        ["PAD", "ADD"],
        ["Constant Pad (ND, X32)", "Add (ND)"],
        ["PAD", "ADD"],
    ),
    "several operators for an op": (
        ["CONCATENATION", "SOFTMAX"],
        ["Copy (NC, X32)", "Copy (NC, X32)", "Softmax (NC, F32)"],
        ["CONCATENATION", "SOFTMAX"],
    ),
    "a reshape of either neighbour": (
        ["MEAN", "FULLY_CONNECTED"],
        ["Mean (ND)", "Static Reshape", FULLY_CONNECTED],
        ["MEAN FULLY_CONNECTED"],
    ),
    "an operator that nobody knows": (
        ["ADD", "STABLEHLO_NEW", "MUL"],
        ["Add (ND)", "Brand New (NC)", "Multiply (ND)"],
        ["ADD", "STABLEHLO_NEW", "MUL"],
    ),
    "constants for another part": (
        ["CONV_2D", "RELU", "DEQUANTIZE", "DEQUANTIZE"],
        [CONV],
        ["CONV_2D RELU", "DEQUANTIZE DEQUANTIZE"],
    ),
    "nothing fits": (["ADD", "MUL"], [CONV], ["ADD MUL"]),
    "no operators": (["DEQUANTIZE"], [], ["DEQUANTIZE"]),
}


@pytest.mark.parametrize(("ops", "operators", "expected"), CASES.values(), ids=CASES)
def test_ops_and_operators_are_grouped(
    ops: Sequence[str], operators: Sequence[str], expected: Sequence[str]
) -> None:
    groups = group_operators(ops, operators)
    assert [" ".join(ops[i] for i in group.ops) for group in groups] == expected
    assert [i for group in groups for i in group.operators] == list(range(len(operators)))


def test_each_op_of_a_large_network_is_in_one_group() -> None:
    ops = ["DEQUANTIZE", "CONV_2D", "RELU", "ADD", "RESHAPE"] * 140
    operators = [CONV, "Add (ND)", "Clamp (NC)", "Static Reshape"] * 140
    groups = group_operators(ops, operators)
    assert [i for group in groups for i in group.ops] == list(range(len(ops)))
