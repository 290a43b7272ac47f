"""Tests damaged IR texts of all levels: each is lowered, or refused with a reason."""

from __future__ import annotations

import re
from random import Random

import pytest

from litert.core.errors import LiteRtError
from tests.vendor_reference.document_texts import MENDED
from vendor_reference.compiler.ir.text import print_ir, read_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.levels.dialects import make_context
from vendor_reference.compiler.pass_pipeline import compile_passes, run_passes

TEXTS = [*MENDED.values()]
PIECES = [
    "0", "-1", "99999999999", "?", "unit", "#NHWC", "()", "{}", "[]", "tensor<*xf32>",
    "tensor<4xindex>", "tensor<4xbf16>", "memref<4xf32>", "none", "i7", '"x"', '"', "@", "%9",
]  # fmt: skip


def damaged(random: Random) -> str:
    pieces = re.findall(r"\s+|[A-Za-z_.]+|\d+|.", random.choice(TEXTS))
    for _ in range(random.choice([1, 1, 2, 3])):
        place = random.randrange(len(pieces))
        pieces[place] = random.choice(["", random.choice(pieces), random.choice(PIECES)])
    return "".join(pieces)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_text_is_lowered_or_refused_with_a_reason(seed: int) -> None:
    random, context, passes = Random(seed), make_context(), compile_passes()
    refused = 0
    for _ in range(60):
        text = damaged(random)
        try:
            ir = read_ir(text, "damaged.mlir", context)
            check_ir(ir.module, ir.places)
            run_passes(context, ir.module, passes)
            read_ir(print_ir(ir.module, ir.aliases), "printed.mlir", context)
        except LiteRtError as error:
            refused += 1
            assert error.what, text
    assert refused
