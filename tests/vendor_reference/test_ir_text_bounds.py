"""Tests that small texts that would take gigabytes or minutes are refused before the parser spends them."""

from __future__ import annotations

import pytest

from litert.core.errors import LiteRtError
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.opt import transform_text

MODULE = "builtin.module attributes {{a = {}}} {{}}"


def aliases(count: int, uses: int, sign: str = "#", body: str = "[{}]", first: str = "0") -> str:
    """Returns aliases that each use the previous one several times, and a module that uses the last."""
    lines = [f"{sign}a0 = {first}"]
    for index in range(1, count):
        parts = ", ".join([f"{sign}a{index - 1}"] * uses)
        lines.append(f"{sign}a{index} = {body.format(parts)}")
    return "\n".join([*lines, MODULE.format(f"{sign}a{count - 1}")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MODULE.format("0 : i9223372036"), "the integer type has more than 64 bits"),
        (MODULE.format("dense<0> : tensor<4xi65>"), "the integer type has more than 64 bits"),
        (MODULE.format("array<i99999999: 1>"), "the integer type has more than 64 bits"),
        (MODULE.format("1.0 : f80"), "the IR does not support type f80"),
        (aliases(12, 10), "the aliases expand to more than 65536 attributes"),
        (aliases(20, 2, "!", "tuple<{}>", "i8"), "the aliases expand to more than 65536"),
        (aliases(5, 9) + MODULE.format("[" + "#a4," * 20 + "#a4]"), "expand to more than 65536"),
        (aliases(70, 1), "the aliases are nested deeper than 64 levels"),
        (MODULE.format("[" * 65 + "]" * 65), "the brackets are nested deeper than 64 levels"),
        (MODULE.format("affine_map<(a) -> (" + "(" * 99 + "a" + ")" * 99 + ")>"), "deeper than 64"),
        ("builtin.module {" * 65 + "}" * 65, "the brackets are nested deeper than 64 levels"),
        (
            MODULE.format("[" + "1," * (1 << 20) + "1]"),
            "the text has more than 1048576 names and numbers",
        ),
        (
            MODULE.format('"' + "\\41" * 1048577 + '"'),
            "the text has more than 1048576 escapes",
        ),
        (MODULE.format("i" + "9" * 65), "a number has more than 64 digits"),
        (MODULE.format("9" * 65), "a number has more than 64 digits"),
        (MODULE.format("0x" + "F" * 65), "a number has more than 64 digits"),
        (
            MODULE.format("dense<0> : tensor<1048700xi8>"),
            "constants exceeds the text's length by more than 1048576: write",
        ),
        (
            MODULE.format("[" + "dense<0> : tensor<65536xi8>," * 17 + "0]"),
            "constants exceeds the text's length by more than 1048576: write",
        ),
        (
            MODULE.format("dense<0> : tensor<" + f"{2**62}x" * 300 + "i8>"),
            "a constant in the text has more than 67108864 elements",
        ),
    ],
)
def test_a_small_text_that_stands_for_much_is_refused(text: str, message: str) -> None:
    with pytest.raises(LiteRtError, match=message) as error:
        read_ir(text, "text.mlir", make_context())
    assert error.value.where.startswith("text.mlir:")


@pytest.mark.parametrize(
    "text",
    [
        aliases(4, 9),
        aliases(60, 1),
        MODULE.format("[" * 60 + "]" * 60),
        MODULE.format('["((((", "' + "[" * 99 + '"]') + "// " + "(" * 99,
        MODULE.format("dense<0> : tensor<1048576xi8>"),
        MODULE.format("9" * 18),
        MODULE.format('"' + "1, " * (1 << 20) + '"') + "//" + "1, " * (1 << 20),
    ],
)
def test_what_is_within_the_bounds_is_read(text: str) -> None:
    read_ir(text, "text.mlir", make_context())


def test_a_layout_of_more_dimensions_than_letters_is_printed() -> None:
    names = [f"d{i}" for i in range(30)]
    text = MODULE.format(f"affine_map<({', '.join(names)}) -> ({', '.join(names[::-1])})>")
    context = make_context()
    assert "d29" in (printed := print_ir(read_ir(text, "", context).module))
    assert print_ir(read_ir(printed, "", context).module) == printed


def test_places_of_ops_are_lines_and_columns() -> None:
    text = 'builtin.module {\n  "builtin.module"() ({}) : () -> ()\n\n\n   builtin.module {}\n}'
    assert [*read_ir(text, "a", make_context()).places.values()] == ["a:1:1", "a:2:3", "a:5:4"]


def test_a_function_of_several_blocks_is_refused() -> None:
    text = b"func.func @f() {\n  func.return\n^bb1:\n  func.return\n}"
    with pytest.raises(LiteRtError, match="several blocks") as error:
        transform_text(text, "text.mlir", "")
    assert error.value.where == "text.mlir:1:1"


def test_a_number_of_a_kernel_that_no_task_holds_stays_text() -> None:
    text = b"""\
func.func private @Op(tensor<4xf32>) -> tensor<4xf32> attributes {VPUIP.kernel =
  {title = "Op", arguments = [], commands = [
    {instruction = "Pool", fields = {input = [99999999999999999999 : index]}}]}}"""
    assert "99999999999999999999 : index" in transform_text(text, "text.mlir", "")


def test_a_pass_that_fails_on_a_text_of_nobody_names_the_text() -> None:
    text = b"""\
func.func private @Op(tensor<4xf32, "odd">) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  func.return %x : tensor<4xf32>
}"""
    with pytest.raises(LiteRtError, match="a compiler pass fails on this IR text") as error:
        transform_text(text, "text.mlir", "lower-ie-to-iert")
    assert error.value.where == "text.mlir"
