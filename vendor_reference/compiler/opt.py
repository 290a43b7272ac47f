"""`litert-npu opt`: reads IR text, runs passes, and prints IR text.

The command can resume a compilation at any stage.
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
    """Reads a module, verifies it, runs passes on it, and verifies the module after each pass.

    Args:
      text: IR text of any level.
      name: File name of the IR text, for messages.
      passes: Names of passes, separated by commas: `adjust-layouts,optimize-reorders`.
      soc_model: SoC model to compile for; "" to use the SoC model of the IR text.

    Returns:
      IR text after the passes.

    Raises:
      LiteRtError: NOT_FOUND, if a pass or SoC does not exist; INVALID_ARGUMENT or INVALID_IR_TYPE, if the IR text
        has an error, whose line is in the message; other statuses, if a pass fails.
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
    """Returns the names and descriptions of all passes; the passes of a compilation come first, in order."""
    return [(name, describe_pass(known)) for name, known in find_passes().items()]
