"""Tests notes about `int` and `uint` indices that are computed from a work item's index and used in an address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vendor_reference.authoring.narrow_indices import find_narrow_index_notes

_EXAMPLES = Path(__file__).parents[2] / "examples"
_HEAD = "__kernel void k(const __global float* x, __global float* y, int n) {\n"

NOTED = {
    "a subscript": ("const int i = get_global_id(0);\ny[i] = x[i];", ["i:2"]),
    "its declaration on an earlier line": ("int i;\n\ni = get_global_id(0);\ny[i] = 0;", ["i:2"]),
    "the second of a declaration": ("const int j = n, i = get_global_id(0);\ny[i] = j;", ["i:2"]),
    "arithmetic": ("int i = n * (get_global_id(0) + 1) % 7;\ny[2 * i + 1] = 0;", ["i:2"]),
    "another variable": ("int i = get_global_id(0);\nint j = i + 1;\ny[j] = 0;", ["i:2", "j:3"]),
    "by way of a size_t": ("size_t g = get_global_id(0);\nint i = g;\ny[i] = 0;", ["i:3"]),
    "made a size_t too late": ("int i = get_global_id(0);\nsize_t j = i;\ny[j] = 0;", ["i:2"]),
    "a uint": ("uint i = get_global_id(0);\ny[i] = 0;", ["i:2"]),
    "an unsigned": ("unsigned i = get_global_id(0);\ny[i] = 0;", ["i:2"]),
    "an unsigned int": ("const unsigned int i = get_global_id(0);\ny[i] = 0;", ["i:2"]),
    "a conversion": ("y[(int)get_global_id(0)] = 0;", ["(int):2"]),
    "a conversion in a sum": ("y[n +\n(int) get_global_id(0) * 4] = 0;", ["(int):3"]),
    "a conversion for a variable": ("int i = (int)get_global_id(0);\ny[i] = 0;", ["i:2"]),
    "convert_int": ("y[convert_int(get_global_id(0))] = 0;", ["(convert_int):2"]),
    "min of two": ("int i = min((int)get_global_id(0), n);\ny[i] = 0;", ["i:2"]),
    "a choice": ("int i = get_global_id(0) < n ? get_global_id(0) : 0;\ny[i] = 0;", ["i:2"]),
    "a loop": ("for (int i = get_global_id(0); i < n; i += 8)\ny[i] = 0;", ["i:2"]),
    "added up": ("int i = 0;\ni += get_global_id(0);\ny[i] = 0;", ["i:2"]),
    "a read in a condition": ("int i = get_global_id(0);\nif (x[i] > 0) y[0] = 0;", ["i:2"]),
    "a vector of int": (
        "int2 at = (int2)(get_global_id(0), get_global_id(1));\ny[at.y * n + at.x] = 0;",
        ["at:2"],
    ),
    "vload": ("int i = get_global_id(0);\nfloat4 v = vload4(i, x);", ["i:2"]),
    "vload_half": ("int i = get_global_id(0);\nfloat v = vload_half(i, x);", ["i:2"]),
    "vstore": ("int i = get_global_id(0);\nvstore4((float4)(0), i, y);", ["i:2"]),
    "a pointer and an int": ("int i = get_global_id(0);\n*(y + i) = 0;", ["i:2"]),
    "an int and a pointer": ("int i = get_global_id(0);\n*(2 * i + y) = 0;", ["i:2"]),
    "a pointer that moves": ("int i = get_global_id(0);\ny += i;\n*y = 0;", ["i:2"]),
    "a pointer of its own": (
        "const int i = get_global_id(0);\n__global float* row = y + i * n;\nrow[0] = 0;",
        ["i:2"],
    ),
    "a subscript of such a pointer": (
        "__global float* row = y + 1;\nint i = get_global_id(0);\nrow[i] = 0;",
        ["i:3"],
    ),
    "an array's literal in between": (
        "int i = get_global_id(0);\nsize_t at = 3 + i * (int []){1,2,3,4,}[2];\ny[at] = 0;",
        ["i:2"],
    ),
    "a dimension of the author's": ("int i = get_global_id(n);\ny[i] = 0;", ["i:2"]),
    "one dimension of two": (
        "int r = get_global_id(1), c = get_global_id(0);\ny[r * n + c] = 0;",
        ["c:2"],
    ),
    "a name for int": ("typedef int idx;\nconst idx i = get_global_id(0);\ny[i] = 0;", ["i:3"]),
    "a name for unsigned int": (
        "typedef unsigned int idx;\nidx i = get_global_id(0);\ny[i] = 0;",
        ["i:3"],
    ),
    "a name for a name": (
        "typedef short s;\ntypedef s idx;\nidx i = get_global_id(0);\ny[i] = 0;",
        ["i:4"],
    ),
    "a conversion to such a name": ("typedef uint idx;\ny[(idx)get_global_id(0)] = 0;", ["(idx):3"]),
    "get_local_id": ("int i = get_local_id(0);\ny[i] = 0;", ["i:2"]),
    "a macro": ("#define ID get_global_id(0)\nint i = ID;\ny[i] = 0;", ["i:3"]),
    "a macro for the address": (
        "#define AT(a) \\\n  (a + i)\nint i = get_global_id(0);\ny[AT(1)] = 0;",
        ["i:4"],
    ),
    "itself, over and over": ("int i = get_global_id(0);\n" + "i = i + i;\n" * 60 + "y[i] = 0;", ["i:2"]),
    "behind a comment of several lines": ("/* a\n\n*/ int i = get_global_id(0);\ny[i] = 0;", ["i:4"]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "names"), NOTED.values(), ids=NOTED)
def test_an_int_in_an_address_is_noted_with_its_line(body: str, names: list[str]) -> None:
    (note,) = find_narrow_index_notes(_text(body))
    assert re.findall(r"'(?:\w+ )?([^' ]+)' \(k\.cl:(\d+)\)", note) == [
        tuple(n.split(":")) for n in names
    ]
    assert "several times slower" in note and "size_t" in note


NOT_NOTED = {
    "size_t": "const size_t i = get_global_id(0);\ny[i] = x[i];",
    "the same for neighbours": (
        "int r = get_global_id(1), p = get_local_id(2);\ny[r * n + p + get_global_id(0)] = 0;"
    ),
    "a name for size_t": "typedef size_t idx;\nidx i = get_global_id(0);\ny[i] = x[i];",
    "a name for unsigned long": (
        "typedef unsigned long idx;\nidx i = get_global_id(0);\ny[i] = x[i];"
    ),
    "a name for a pointer": (
        "typedef __global int* ints;\nints i = (ints) x + get_global_id(0);\ny[*i] = 0;"
    ),
    "ulong": "ulong i = get_global_id(0);\ny[i] = x[i];",
    "unsigned long": "unsigned long i = get_global_id(0);\ny[i] = x[i];",
    "no variable": "y[get_global_id(0)] = x[get_global_id(0)];",
    "a comparison alone": "int i = get_global_id(0);\nif (i < n) y[get_global_id(0)] = 0;",
    "a value alone": "int i = get_global_id(0);\ny[get_global_id(0)] = i;",
    "a value that is added": "int i = get_global_id(0);\ny[0] = *x + i;",
    "a value that is multiplied": "int i = get_global_id(0);\ny[0] = i * *x;",
    "a value that vstore stores": "int i = get_global_id(0);\nvstore4((float4)(i), 0, y);",
    "a comparison's result": "int is_first = get_global_id(0) == 0;\ny[is_first] = 0;",
    "a loop that only ends there": "int i = get_global_id(0);\nfor (int j = 0; j < i; ++j) y[j] = 0;",
    "a loop with it in its body": (
        "int i = get_global_id(0);\nfloat s = 0;\nfor (int j = 0; j < n; j += 2) s += x[j] * i;"
    ),
    "what is read from memory": (
        "__global int* p = (__global int*)x;\nint at = p[get_global_id(0)];\ny[at] = 0;"
    ),
    "what a function of the author's says": "int at = place(get_global_id(0));\ny[at] = 0;",
    "work items of a group": "int i = get_local_size(0) + get_group_id(0);\ny[i] = 0;",
    "an array of its own": "float own[8];\nint i = get_global_id(0);\nown[i % 8] = 0;",
    "local memory": "__local float* l;\nint i = get_local_id(0);\nl[i] = 0;",
    "a name of another block": "{ int i = get_global_id(0); }\nsize_t i = 0;\ny[i] = 0;",
    "a comment": "// int i = get_global_id(0); y[i] = 0;\n/* int i = get_global_id(0);\ny[i] = 0; */",
    "a text": 'printf("int i = get_global_id(0); y[i]", y[0]);',
    "a macro that nobody uses": "#define AT int i = get_global_id(0); y[i] = 0;\n",
}


@pytest.mark.parametrize("body", NOT_NOTED.values(), ids=NOT_NOTED)
def test_what_is_no_int_in_an_address_is_not_noted(body: str) -> None:
    assert find_narrow_index_notes(_text(body)) == []


def test_a_kernel_does_not_know_the_names_of_another() -> None:
    other = "__kernel void other(__global float* y, int i) { y[i] = 0; }\n"
    assert find_narrow_index_notes(_text("int i = get_global_id(0);") + other) == []


def test_a_header_s_line_is_named_by_its_file() -> None:
    header = '#line 1 "lib/h.h"\n#define ID \\\n  0\n'
    inside = "void f(__global int* p) { int j = get_global_id(ID); p[j] = 0; }\n"
    body = "int i = get_global_id(0);\ny[i] = 0;"
    (note,) = find_narrow_index_notes(header + inside + _text(body))
    assert "'int j' (lib/h.h:3), 'int i' (k.cl:2)" in note


@pytest.mark.parametrize("path", sorted(_EXAMPLES.rglob("*.cl")), ids=lambda path: path.name)
def test_examples_have_none(path: Path) -> None:
    assert find_narrow_index_notes(path.read_text()) == []


_WORDS = "int typedef size_t i y get_global_id ( ) [ ] { } = += + * , ; < ? : . for if __global"


@given(st.lists(st.sampled_from(_WORDS.split())))
def test_any_tokens_are_read(words: list[str]) -> None:
    find_narrow_index_notes(_text(" ".join(words)))


def _text(body: str) -> str:
    return f'#line 1 "k.cl"\n{_HEAD}{body}\n}}\n'
