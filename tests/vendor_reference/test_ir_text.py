"""Tests IR as text: reading, printing, and the refusal of malformed texts."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, DenseIntOrFPElementsAttr
from xdsl.dialects.func import Func
from xdsl.dialects.test import Test

from litert.core.errors import LiteRtError
from litert.core.status import Status
from tests.vendor_reference.ir_texts import normal, read
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.ir.text_bounds import MAX_TEXT_BYTES
from vendor_reference.compiler.ir.verification import check_ir


@pytest.fixture
def context() -> Context:
    context = Context()
    for dialect in (Builtin, Func, Test):
        context.load_dialect(dialect)
    return context


def test_layouts_are_printed_by_name(context: Context) -> None:
    ir = read_ir(
        """
        func.func private @f(tensor<1x2x3x4xf16, affine_map<(a, b, c, d) -> (a, d, b, c)>>,
            tensor<2x3xf32, affine_map<(x, y) -> (y, x)>>)
        """,
        "f.mlir",
        context,
    )
    assert print_ir(ir.module) == (
        "#NCHW = affine_map<(n, h, w, c) -> (n, c, h, w)>\n"
        "#BA = affine_map<(a, b) -> (b, a)>\n"
        "\n"
        "builtin.module {\n"
        "  func.func private @f(tensor<1x2x3x4xf16, #NCHW>, tensor<2x3xf32, #BA>) -> ()\n"
        "}\n"
    )


def test_names_that_a_text_gives_are_kept(context: Context) -> None:
    """Checks that printing uses the alias and dimension names of the text."""
    text = (
        "#NHWC = affine_map<(n, c, h, w) -> (n, h, w, c)>\n"
        "\n"
        "builtin.module {\n"
        "  func.func private @f(tensor<1x16x100x100xf16, #NHWC>) -> ()\n"
        "}\n"
    )
    ir = read_ir(text, "f.mlir", context)
    assert print_ir(ir.module, ir.aliases) == text


def test_a_name_that_stands_for_something_else_is_not_taken(context: Context) -> None:
    ir = read_ir(
        "#NCHW = 4 : i32\n"
        "func.func private @f(tensor<1x1x1x1xi8, affine_map<(n, h, w, c) -> (n, c, h, w)>>)",
        "f.mlir",
        context,
    )
    text = print_ir(ir.module, ir.aliases)
    assert text.startswith("#NCHW_2 = ")
    assert print_ir(read_ir(text, "f.mlir", context).module) == text.replace("NCHW_2", "NCHW")


def test_long_attributes_are_printed_on_lines_of_their_own(context: Context) -> None:
    entries = ", ".join(f'entry_{i} = "{"x" * 30}"' for i in range(4))
    ir = read_ir(
        f"builtin.module attributes {{short = 1 : i8, long = {{{entries}}}}} {{}}", "", context
    )
    text = print_ir(ir.module)
    assert max(map(len, text.splitlines())) <= 100
    assert "\n    entry_3 = " in text
    assert print_ir(read_ir(text, "", context).module) == text


HOSTILE = {
    "nothing": (b"", "1:1"),
    "only a comment": (b"// x", "1:5"),
    "binary": (bytes(range(256)), "2"),
    "zeros": (b"\0" * 64, "1:1"),
    "not UTF-8": ("func.func @\n€".encode("cp1252"), "2"),
    "deep attributes": (b"builtin.module attributes {a = " + b"[" * 200_000, "1:"),
    "deep regions": (b"builtin.module {\n" * 10_000, "builtin"),
    "deep types": (b"func.func private @f(" + b"tuple<" * 100_000, "1:"),
    "deep maps": (b"#m = affine_map<(d0) -> (" + b"-" * 100_000 + b"d0)>", "1:"),
    "a number without end": (b"builtin.module attributes {a = " + b"9" * 100_000 + b"}", "1:"),
    "a splat that fills memory": (b"#a = dense<1.0> : tensor<1000000x1000000xf32>", "1:"),
    "a half that is none": (b"builtin.module attributes {a = 70000.0 : f16}", "1:"),
    "a byte that is none": (b"\n#a = dense<[900]> : tensor<1xi8>", "2:"),
    "an op that is not there": (b"\n\n  IE.Nothing", "3:"),
    "an op in MLIR's own form that is not there": (b'"IE.Nothing"() : () -> ()', "1:"),
    "a value that is not there": (b'func.func @f() {\n"test.op"(%1) : (i32) -> ()\n}', "3:"),
    "a value twice": (b'%0 = "test.op"() : () -> i8\n%0 = "test.op"() : () -> i8', "2:1"),
    "cut": (b"builtin.module {", "1:17"),
    "a resource of another dialect": (b'{-# dialect_resources: {x: {y: "z"}} #-}', "1:"),
    "a text that does not end": (b'#a = "' + b"x" * 200 + b"\n", "1:6"),
    "an escape that is not there": (b'// "\n#a = "ok"\n#b = "' + b"x" * 99 + b'\\q"', "3:6"),
    "an alias that is not there": (b"#a = #b", "1:"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_ir_is_refused_with_its_place(name: str, context: Context) -> None:
    text, place = HOSTILE[name]
    with pytest.raises(LiteRtError) as error:
        read_ir(text, "file.mlir", context)
    assert error.value.status is Status.INVALID_ARGUMENT
    assert error.value.where.startswith("file.mlir")
    assert place == "builtin" or error.value.where.startswith(f"file.mlir:{place}")
    assert error.value.what and "\n" not in str(error.value) and len(str(error.value)) < 400


def test_a_float_in_hexadecimal_is_its_bits(context: Context) -> None:
    """Checks hexadecimal floats, which MLIR prints for infinities and NaN."""
    text = "func.func private @f() attributes {a = dense<[1.0, 0x7f800000, 0xFFC00000]> : tensor<3xf32>}"
    (function,) = read_ir(text, "f.mlir", context).module.ops
    constant = function.attributes["a"]
    assert isinstance(constant, DenseIntOrFPElementsAttr)
    assert constant.data.data.hex() == "0000803f0000807f0000c0ff"
    (again,) = read_ir(str(function), "f.mlir", context).module.ops
    assert again.attributes["a"] == constant
    with pytest.raises(LiteRtError, match="does not fit into the 16 bits of f16"):
        read_ir(text.replace("f32", "f16"), "f.mlir", context)


def test_a_text_too_large_is_not_read(context: Context) -> None:
    with pytest.raises(LiteRtError, match=r"the IR text has \d+ bytes"):
        read_ir(bytes(MAX_TEXT_BYTES + 1), "file.mlir", context)


WRONG = {
    "a call to nothing": ("func.func @f() {\n  func.call @g() : () -> ()\n  func.return\n}", "2:3", "@g"),
    "a function without an end": ('func.func @f() {\n  "test.op"() : () -> ()\n}', "2:3", "terminat"),
    "an empty body": ("func.func @f() {\n^bb0:\n}", "1:1", "empty block"),
    "a use before the definition": (
        'func.func @f() {\n  "test.op"(%0) : (i8) -> ()\n  %0 = "test.op"() : () -> i8\n  func.return\n}',
        "2:3",
        "before",
    ),
    "a return of something else": (
        'func.func @f() -> i8 {\n  %0 = "test.op"() : () -> i16\n  func.return %0 : i16\n}',
        "3:3",
        "return",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_verify_is_refused_with_its_place(name: str, context: Context) -> None:
    text, place, what = WRONG[name]
    ir = read_ir(text, "file.mlir", context)
    with pytest.raises(LiteRtError, match=what) as error:
        check_ir(ir.module, ir.places)
    assert error.value.status is Status.INVALID_IR_TYPE
    assert error.value.where == f"file.mlir:{place}"


def test_an_op_that_a_pass_has_made_wrong_is_named_by_its_function(context: Context) -> None:
    ir = read_ir(WRONG["a call to nothing"][0], "file.mlir", context)
    with pytest.raises(LiteRtError) as error:
        check_ir(ir.module, after="some-pass")
    assert error.value.where == "op 0 of @f, after pass 'some-pass'"


def test_a_long_text_is_printed_once_in_front(context: Context) -> None:
    kernel = (
        "__kernel void k(__global float* x) {\\0A" + "  x[get_global_id(0)] += 1;\\0A" * 5 + "}"
    )
    ir = read_ir(
        f'func.func private @f() attributes {{text = "{kernel}"}}\n'
        f'func.func private @g() attributes {{text = "{kernel}", title = "g"}}',
        "f.mlir",
        context,
    )
    text = print_ir(ir.module)
    assert text.count("__kernel") == 1 and text.startswith('#text = "__kernel')
    assert "func.func private @f() -> () attributes {text = #text}" in text
    again = read_ir(text, "f.mlir", context)
    assert print_ir(again.module, again.aliases) == print_ir(again.module) == text


READ = {
    "func": (
        "func private @f(!shape.type) -> tensor<4xf16>, !shape.type attributes {a}",
        "func.func private @f(!shape.shape) -> (tensor<4xf16>, !shape.shape) attributes {a}",
    ),
    "call": (
        """
        func.func private @f(!shape.shape) -> !shape.shape
        func.func private @g(memref<4xui32>)
        func @h(%s: !shape.shape, %m: memref<4xui32>) -> !shape.shape {
          %t = call @f(%s) : !shape.shape -> !shape.shape
          call @g(%m)
          return %t
        }
        """,
        """
        func.func private @f(!shape.shape) -> !shape.shape
        func.func private @g(memref<4xui32>) -> ()
        func.func @h(%s: !shape.shape, %m: memref<4xui32>) -> !shape.shape {
          %t = func.call @f(%s) : (!shape.shape) -> !shape.shape
          func.call @g(%m) : (memref<4xui32>) -> ()
          func.return %t : !shape.shape
        }
        """,
    ),
    "buffers": (
        """
        func @main(%x: memref<4xf16>, %y: memref<4xf16>) {
          %a = alloc : memref<4xf16>
          IE.Copy(%x, %a)
          IE.Copy(%a, %y)
          dealloc %a
          return
        }
        """,
        """
        func.func @main(%x: memref<4xf16>, %y: memref<4xf16>) {
          %a = memref.alloc() : memref<4xf16>
          IERT.Copy(%x, %a)
          IERT.Copy(%a, %y)
          memref.dealloc %a : memref<4xf16>
          func.return
        }
        """,
    ),
    "ops outside of a function": (
        """
        func.func private @main(tensor<4xf16>) -> tensor<4xf16>
        %c = IE.Constant tensor<4xf16> = dense_resource<c>
        %y = IE.Copy(%x) : tensor<4xf16> -> tensor<4xf16>
        %z = func.call @main(%x) : (tensor<4xf16>) -> tensor<4xf16>
        %v = IE.Copy(%c) : tensor<4xf16> -> tensor<4xf16>
        """,
        """
        func.func private @main(tensor<4xf16>) -> tensor<4xf16>
        func.func @main_1(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xf16>, tensor<4xf16>) {
          %c = IE.Constant tensor<4xf16> = dense_resource<c>
          %y = IE.Copy(%x) : tensor<4xf16> -> tensor<4xf16>
          %z = func.call @main(%x) : (tensor<4xf16>) -> tensor<4xf16>
          %v = IE.Copy(%c) : tensor<4xf16> -> tensor<4xf16>
          func.return %y, %z, %v : tensor<4xf16>, tensor<4xf16>, tensor<4xf16>
        }
        """,
    ),
}  # fmt: skip
"""Spellings of older documents, each with MLIR's current spelling."""


@pytest.mark.parametrize("name", READ)
def test_what_older_documents_write_is_printed_as_mlir_has_it_today(name: str) -> None:
    text, today = READ[name]
    printed = normal(text)
    body = indent(dedent(today).strip(), "  ")
    assert printed == f"builtin.module {{\n{body}\n}}\n"
    assert normal(printed) == printed


@pytest.mark.parametrize(
    ("text", "what", "place"),
    [
        ("func @f() {\n  return %2\n}", "%2 is not defined before its use", "2:10"),
        ("IERT.Copy(%x, %y)", "%x is not defined before its use", "1:11"),
        ("func @f(%x: memref<4xf16>) {\n  dealloc %x\n  return\n}", "the op frees memory that no alloc", "2:3"),
        ("%y = call @f(%x)", "%x is not defined", "1:14"),
        ("%y = IE.Copy(%x#1) : tensor<4xf16> -> tensor<4xf16>", "the value %x is used but not defined", "1:52"),
        ("func @f(%x: i8, f32) {}", "some arguments have names, and others do not", "1:22"),
        ("func @f(%x: i8) {return}\n%y = IE.Copy(%z) : i8 -> i8, i16", "2 results", "2:1"),
        ("func @f(%x: i8) -> i8 {\n  return %x : i16\n}", "used with type i16", "2:10"),
        ("func @f() {\n  %a = alloc : memref<4xf16>\n  dealloc %a : i8\n}", "memref<4xf16>", "3:14"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_an_older_text_is_an_error_with_its_place(
    text: str, what: str, place: str
) -> None:
    with pytest.raises(LiteRtError, match=what) as error:
        read(text)
    assert error.value.where == f"test.mlir:{place}"


def test_three_dots_are_no_values() -> None:
    with pytest.raises(LiteRtError) as error:
        read("%c = IE.Constant tensor<4xui8> = dense<...>")
    assert "Three dots are not values" in error.value.hint and "The line is" in error.value.hint


def test_a_function_sees_nothing_of_ops_outside_of_it() -> None:
    text = """
        %c = IE.Constant tensor<1xui8> = dense<1>
        func @f(%c: tensor<2xui8>) -> tensor<2xui8> {
          return %c
        }
    """
    assert "func.func @f(%c: tensor<2xui8>) -> tensor<2xui8>" in normal(text)
    with pytest.raises(LiteRtError, match="%c is not defined"):
        read(text.replace("%c:", "%d:"))
