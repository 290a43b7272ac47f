"""`litert-npu opt`.

Reads IR text, runs passes, and prints IR text. A compilation can be resumed here at every stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from vendor_reference.compiler.edited_ir import foreign_text
from vendor_reference.compiler.edited_plan import check_edited_plan
from vendor_reference.compiler.ir.attributes import set_after, set_soc
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.library_layers import library_layers
from vendor_reference.compiler.pass_pipeline import (
    describe_pass,
    find_passes,
    find_stage,
    parse_passes,
    run_passes,
)
from vendor_reference.soc import get_soc_model


def transform_text(text: bytes, name: str, passes: str, soc_model: str = "") -> str:
    """Reads a module, verifies it, runs passes on it, and verifies it after each pass.

    Args:
      text: IR text of any level.
      name: Name of the text's file, for messages.
      passes: Names of passes with commas between them, as in `adjust-layouts,optimize-reorders`.
      soc_model: SoC model to compile for instead of the text's; "" to use the text's.

    Returns:
      IR text after the passes.

    Raises:
      LiteRtError: NOT_FOUND, if a pass or SoC does not exist; INVALID_ARGUMENT and INVALID_IR_TYPE,
        for an error in the text, with its line; or the error of a pass.
    """
    chosen = parse_passes(passes)
    soc = get_soc_model(soc_model) if soc_model else None
    context = make_context(list(library_layers().values()))
    ir = read_ir(text, name, context)
    check_ir(ir.module, ir.places)
    if soc is not None:
        set_soc(ir.module, soc)
    with foreign_text(name):
        check_edited_plan(ir.module, ir.places)
        if chosen:
            set_after(ir.module, find_stage(ir.module))
        run_passes(context, ir.module, chosen, lambda done, module: check_ir(module, after=done))
        return print_ir(ir.module, ir.aliases)


def list_passes() -> Sequence[tuple[str, str]]:
    """Returns the names of all passes with their descriptions, first the passes of a compilation in order."""
    return [(name, describe_pass(known)) for name, known in find_passes().items()]
