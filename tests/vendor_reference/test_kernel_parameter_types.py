"""Tests reading the parameter types of kernels from their source text."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vendor_reference.custom_layers.kernel_source import parameters_in_text


def types_in_text(given: str, texts: Sequence[str], kernel: str) -> list[str] | None:
    found = parameters_in_text(given, texts, kernel)
    return None if found is None else [parameter.type for parameter in found]


GIVEN = "#define INPUT0_TYPE float\n"
TOLD = {
    "pointers": ("(const __global half* x, __global half4 * restrict y)", ["half*", "half4*"]),
    "numbers": ("(float a, unsigned int b, __global int **c)", ["float", "unsigned int", "int**"]),
    "an array": ("(__global half x[])", ["half*"]),
    "no names": ("(__global half*, int)", ["half*", "int"]),
    "a macro in front": ("(__global INPUT0_TYPE* x)", ["float*"]),
    "something unknown": ("(__global struct s* x, __global T* y)", ["", ""]),
}


@pytest.mark.parametrize(("parameters", "types"), TOLD.values(), ids=TOLD)
def test_parameters_have_types(parameters: str, types: list[str]) -> None:
    assert types_in_text(GIVEN, [f"__kernel void k{parameters} {{}}"], "k") == types


NAMED = {
    "a macro": ("#define T half\n", "half*"),
    "a name": ("typedef half T;\n", "half*"),
    "a name for a name": ("typedef half S;\ntypedef S T;\n", "half*"),
    "a name for a pointer": ("typedef __global half* T;\n", "half**"),
    "a macro by an #if": ("#ifdef A\n#define T half\n#else\n#define T float\n#endif\n", ""),
    "a name by an #if": ("#ifdef A\ntypedef half T;\n#else\ntypedef float T;\n#endif\n", ""),
    "a default for what is there": (
        "#ifndef INPUT0_TYPE\n#define INPUT0_TYPE half\n#endif\n#define T INPUT0_TYPE\n",
        "float*",
    ),
}


@pytest.mark.parametrize(("header", "type_name"), NAMED.values(), ids=NAMED)
def test_names_for_types_are_read(header: str, type_name: str) -> None:
    kernel = "__kernel void k(__global T* x) {}"
    assert types_in_text(GIVEN, [header, kernel], "k") == [type_name]


def test_a_kernel_that_stands_there_twice_has_the_types_that_agree() -> None:
    halves = "__kernel void k(__global half* x, int n) {}\n"
    floats = "__kernel void k(__global float* x, int n) {}\n"
    assert types_in_text("", [halves + halves], "k") == ["half*", "int"]
    assert types_in_text("", [f"#ifdef A\n{halves}#else\n{floats}#endif\n"], "k") == ["", "int"]
    assert types_in_text("", [halves + "__kernel void k(int n) {}"], "k") is None
    assert types_in_text("", [halves], "other") is None


def test_parameters_have_names() -> None:
    text = "#define W width\n__kernel void k(const global half* restrict x, int W, float a[4], uint) {}"
    found = parameters_in_text("", [text], "k")
    assert found and [parameter.name for parameter in found] == ["x", "width", "a", ""]
    assert parameters_in_text("", ["kernel void k(int n); kernel void k(int m) {}"], "k") == [
        ("int", "")
    ]
