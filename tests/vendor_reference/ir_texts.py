"""Reads and prints IR texts, before and after passes."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent

from vendor_reference.compiler.ir.text import Ir, print_ir, read_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.levels.layer import LayerOp
from vendor_reference.compiler.pass_pipeline import parse_passes, run_passes


def run(text: str, passes: str = "", layers: Sequence[type[LayerOp]] = ()) -> str:
    """Runs passes on a text and returns the resulting text; verifies the IR between passes and on rereading.

    Args:
      text: text of a module or of its ops; it may be indented as a whole.
      passes: names of passes, separated by commas.
      layers: ops in the text besides the compiler's own.
    """
    context = make_context(layers)
    ir = read(text, layers)
    run_passes(context, ir.module, parse_passes(passes), lambda done, m: check_ir(m, after=done))
    printed = print_ir(ir.module, ir.aliases)
    again = read_ir(printed, "printed.mlir", make_context(layers))
    check_ir(again.module, again.places)
    assert print_ir(again.module, again.aliases) == printed
    return printed


def read(text: str, layers: Sequence[type[LayerOp]] = ()) -> Ir:
    """Reads and verifies a module."""
    ir = read_ir(dedent(text), "test.mlir", make_context(layers))
    check_ir(ir.module, ir.places)
    return ir


def normal(text: str, layers: Sequence[type[LayerOp]] = ()) -> str:
    """Returns a text as the printer prints it, to compare with the result of passes."""
    return run(text, "", layers)
