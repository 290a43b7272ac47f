"""Tests programs for all shapes: sizes named in their text become kernel arguments."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from litert.core.sizes import Dimension
from tests.vendor_reference.executables import source
from vendor_reference.executable.executable import HOLE, Program
from vendor_reference.executable.kernel_signature import DeclaredArgument, KernelSignature
from vendor_reference.executable.size_arguments import (
    argument_sizes,
    open_program,
    own_arguments,
    without_sizes,
)

PRELUDE = """// Custom Layer Built-ins
#define NUM_INPUTS 1
#define GLOBAL_WORKSIZE_SIZE 2
#define GLOBAL_WORKSIZE (size_t []){ 6,8, }\x20
#define INPUT0_DIMS_SIZE 4
#define INPUT0_DIMS_INIT { 2,3,4,5, }\x20
#define INPUT0_DIMS (int []){ 2,3,4,5, }\x20
#define INPUT0_TYPE float
#define INPUT0_OFFSET 7

// Custom Layer User Defines
#define PARAM_alpha 0.5f
"""
OPEN = (
    PRELUDE.replace("6,8,", f"{HOLE},8,")
    .replace("{ 2,3,4,5", f"{{ {HOLE},3,{HOLE},5")
    .replace("#define INPUT0_OFFSET 7\n", "")
)
HOLES = (Dimension(1, 0), *[Dimension(0, 0), Dimension(0, 2)] * 2)


def _open(text: str, prelude: str = PRELUDE) -> tuple[str, str]:
    program = Program(prelude, (source(text),))
    opened = open_program(program, lambda _: memoryview(text.encode()))
    return opened.prelude, "".join(opened.sources)


def test_sizes_that_the_text_names_are_arguments_behind_the_kernel_s_own() -> None:
    kernel = "__kernel void MyOp(__global float* y) { y[0] = INPUT0_DIMS[1] + INPUT0_OFFSET; }\n"
    prelude, text = _open(kernel)
    names = [f"LITERT_NPU_INPUT0_DIMS_{i}" for i in range(4)]
    dims = "".join(f"{name}," for name in names)
    assert f"#define INPUT0_DIMS (int []){{ {dims} }} \n" in prelude
    assert f"#define INPUT0_DIMS_INIT {{ {dims} }} \n" in prelude
    assert "#define INPUT0_OFFSET ((int)LITERT_NPU_INPUT0_OFFSET_0)\n" in prelude
    assert "GLOBAL_WORKSIZE (" not in prelude and "#define PARAM_alpha 0.5f" in prelude
    parameters = "".join(f", const long {n}" for n in [*names, "LITERT_NPU_INPUT0_OFFSET_0"])
    assert f"MyOp(__global float* y{parameters}) {{ y[0]" in text


@pytest.mark.parametrize(
    "kernel",
    [
        "kernel void MyOp(__global float* y%s) { y[INPUT0_OFFSET] = 1; }",
        "__kernel __attribute__((vec_type_hint(float8))) void MyOp(__global float* y%s) {INPUT0_OFFSET}",
        "__kernel void\n__attribute__((work_group_size_hint(1, 1, 1)))\n"
        "MyOp(global float* y /* ) */%s) {INPUT0_OFFSET}",
        "// kernel void (\n__kernel void MyOp(__global float* y%s);INPUT0_OFFSET",
    ],
)
def test_kernels_are_found_however_they_are_written(kernel: str) -> None:
    _, text = _open(kernel % "")
    assert kernel % ", const long LITERT_NPU_INPUT0_OFFSET_0" in text


def test_a_text_that_names_no_size_stays_as_it_is() -> None:
    kernel = "__kernel void MyOp(__global float* y) { y[0] = PARAM_alpha; }\n"
    assert kernel in _open(kernel)[1]


def test_names_that_are_pasted_may_be_any() -> None:
    prelude, text = _open(
        "#define D(n) INPUT##n##_DIMS\n__kernel void MyOp(__global float* y) {}\n"
    )
    assert "LITERT_NPU_INPUT0_DIMS_3" in prelude and "LITERT_NPU_GLOBAL_WORKSIZE_1" in text


def test_what_stays_of_a_program_is_the_same_for_all_shapes() -> None:
    text = (source("x"),)
    other = PRELUDE.replace("3,4", "30,40").replace("6,8", "60,80")
    fixed, larger = Program(PRELUDE, text), Program(other, text)
    opened = Program(OPEN, text, holes=HOLES)
    assert without_sizes(fixed) == without_sizes(larger) == without_sizes(opened)
    half = Program(PRELUDE.replace("TYPE float", "TYPE half"), text)
    assert without_sizes(half) != without_sizes(fixed)


def test_the_sizes_are_numbers_or_those_of_the_run() -> None:
    names = ["INPUT0_DIMS", "GLOBAL_WORKSIZE"]
    assert argument_sizes(Program(PRELUDE, ()), names) == [2, 3, 4, 5, 6, 8]
    assert argument_sizes(Program(OPEN, (), holes=HOLES), names) == [
        Dimension(0, 0), 3, Dimension(0, 2), 5, Dimension(1, 0), 8,
    ]  # fmt: skip
    with pytest.raises(
        LiteRtError,
        match="reads the define INPUT1_DIMS, which the op in this model does not have",
    ):
        argument_sizes(Program(PRELUDE, ()), ["INPUT1_DIMS"])


def test_a_kernel_that_does_not_take_the_sizes_is_refused() -> None:
    own = DeclaredArgument("__global", "float*", "y")
    size = DeclaredArgument("by value", "long", "LITERT_NPU_INPUT0_OFFSET_0")
    taken = own_arguments({"MyOp": KernelSignature((own, size), 64)}, 1)
    assert taken == {"MyOp": KernelSignature((own,), 64)}
    for declared in ((own,), (own, own), ()):
        with pytest.raises(
            LiteRtError, match="parameters for the sizes of tensors to kernel 'MyOp'"
        ):
            own_arguments({"MyOp": KernelSignature(declared, 64)}, 1)
