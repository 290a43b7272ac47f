"""Texts of the reference compiler's levels, and all passes on them, as `litert-npu opt` has them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from compiler_plugin.pipeline import ApplyOptions, apply_in_memory
from litert.core.compiler_options import CompilerOptions, DumpOptions
from tests.fuzz.models import network
from tests.fuzz.mutation import damage_text
from tests.fuzz.target import Target
from tests.vendor_reference.document_texts import DESCRIBED, MENDED
from tests.vendor_reference.test_hostile_ir import PIECES
from vendor_reference.compiler.opt import transform_text
from vendor_reference.compiler.pass_pipeline import pipeline

_PASSES = ",".join(pipeline())
_WORDS = (
    *PIECES, "#a = tuple<>\n", "#b = [#a, #a]\n", "i99999", "xf32", "dense<", "dense_resource<",
    "affine_map<", "->", "memref<", "strided<", "!", "loc(", "0x", "e400", "IE.Reorder", "func.func",
    "func", "call", "alloc", "dealloc", "return", "IE.Layer1", "IERT.Layer1", "@Layer1", "IE.is_op", "!shape.type",
)  # fmt: skip


def _seeds() -> Sequence[bytes]:
    """The documents' texts, and a network at each level."""
    with TemporaryDirectory() as folder:
        compiler = CompilerOptions(
            dump=DumpOptions(folder, ir_after="all"), vendor_options={"reference_ops": "all"}
        )
        with apply_in_memory(network(), ApplyOptions(compiler=compiler)):
            dumped = [path.read_bytes() for path in sorted(Path(folder).rglob("*.mlir"))]
    return [*(text.encode() for text in {**MENDED, **DESCRIBED}.values()), *dumped]


def _damage(data: bytes, random: Random) -> bytes:
    return damage_text(data, random, _WORDS)


def _run(data: bytes) -> None:
    transform_text(data, "a.mlir", _PASSES)


TARGET = Target(_seeds, _run, _damage, test_runs=100)
