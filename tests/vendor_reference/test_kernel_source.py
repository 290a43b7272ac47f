"""Tests the scanner that finds kernels and includes in OpenCL C text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from vendor_reference.custom_layers.kernel_source import (
    choose_kernel,
    decode_source,
    includes,
    kernel_names,
    struct_names,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("__kernel void a(__global float* x) {}", ["a"]),
        ("kernel void a(global float* x) {}", ["a"]),
        ("void __kernel a(global float* x) {}", ["a"]),
        ("__kernel void a(int x);\n__kernel void a(int x) {}", ["a"]),
        ("__kernel void b() {}\n__kernel void a() {}", ["b", "a"]),
        ("__kernel\nvoid\na\n(\nint x) {}", ["a"]),
        ("// __kernel void a() {}\n__kernel void b() {}", ["b"]),
        ("/* __kernel void a() {}\n */ __kernel void b() {}", ["b"]),
        ('constant char s[] = "__kernel void a() { \\" }";\n__kernel void b() {}', ["b"]),
        ("// a backslash \\\n__kernel void a() {}\n__kernel void b() {}", ["b"]),
        ("__ker\\\nnel void a() {}", ["a"]),
        ("__kernel __attribute__((reqd_work_group_size(8, 1, 1))) void a() {}", ["a"]),
        ("__attribute__((vec_type_hint(float4))) __kernel void a() {}", ["a"]),
        ("#define K __kernel\nK void a() {}", ["a"]),
        ("#define K __kernel void\nK a() {}", ["a"]),
        ("#define KERNEL(n) __kernel void n##_f32\nKERNEL(a)(int x) {}\nKERNEL(b)(int x) {}", ["a_f32", "b_f32"]),
        ("#define WG(n) __attribute__((reqd_work_group_size(n, 1, 1)))\n__kernel WG(8) void a() {}", ["a"]),
        ("#define NAME a\n__kernel void NAME() {}", ["a"]),
        ("#define F(x) x\n__kernel void a() { int kernel_size = F(1); }", ["a"]),
        ("#define __kernel __kernel\n__kernel void a() {}", ["a"]),
        ("#ifdef X\n__kernel void a() {}\n#else\n__kernel void b() {}\n#endif", ["a", "b"]),
        ("__kernel void a() {}\r\n__kernel void b() {}\r\n", ["a", "b"]),
        ("#define F(x) x\nF __kernel void a() {}\nint F", ["a"]),
        ("__kernel __attribute__((a void a() {}", []),
        ("int kernel;", []),
        ("", []),
    ],
)  # fmt: skip
def test_kernels_are_found(text: str, names: list[str]) -> None:
    assert kernel_names([text]) == names


def test_macros_of_a_header_count_in_what_includes_it() -> None:
    assert kernel_names(["#define K __kernel\n", "K void a() {}"]) == ["a"]


def test_macros_that_double_at_each_level_end() -> None:
    doubling = "".join(f"#define M{i} M{i + 1} M{i + 1}\n" for i in range(60))
    assert kernel_names([f"{doubling}M0\n__kernel void a() {{}}"])[-1:] == ["a"]


@given(st.lists(st.sampled_from(
    ["__kernel", "void", "a", "(", ")", "{", "}", "#define ", "\n", '"', "'", "/*", "*/", "//", "\\\n",
     "##", ",", "__attribute__", "b(", " "]), max_size=40).map("".join))  # fmt: skip
def test_any_text_can_be_scanned(text: str) -> None:
    kernel_names([text])
    includes(text)


@pytest.mark.parametrize(
    ("names", "chosen"),
    [(["a", "MyOp"], "MyOp"), (["a"], "a"), (["a", "b"], None), ([], None)],
)
def test_the_kernel_is_named_like_the_op_or_is_the_only_one(
    names: list[str], chosen: str | None
) -> None:
    assert choose_kernel("MyOp", names) == chosen


def test_names_of_structs_are_those_that_typedef_gives() -> None:
    text = (
        "typedef struct { float a; int b[2]; } A;\ntypedef struct tag B;\ntypedef A C;\n"
        "typedef union { int i; float f; } __attribute__((aligned(8))) D __attribute__((packed));\n"
        "typedef A* pointer;\ntypedef float number;\nstruct other { int a; };\n"
    )
    assert sorted(struct_names(text)) == ["A", "B", "C", "D"]
    branches = "#ifdef WIDE\ntypedef struct { int a; } A;\n#else\ntypedef int A;\n#endif\n"
    assert not struct_names(branches)


def test_includes_are_those_outside_of_comments_and_in_quotes() -> None:
    text = (
        '#include "a.h"\n  #  include "b/c.h" // "d.h"\n// #include "e.h"\n/*\n#include "f.h"\n*/\n'
        '#include <g.h>\n#include HEADER\n#include "a.h"\n'
    )
    assert includes(text) == ["a.h", "b/c.h"]


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(LiteRtError, match="a zero byte at offset 3"):
        decode_source(b"\x07#\x02\x00\x03", "k.cl")


def test_bytes_that_are_no_utf8_can_stand_in_a_comment() -> None:
    text = decode_source("// f\xfcr\n__kernel void a() {}".encode("latin-1"), "k.cl")
    assert kernel_names([text]) == ["a"]
