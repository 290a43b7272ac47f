"""Tests the check of stock LiteRT's struct layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.writer import to_bytes
from litert.runtime import abi_check
from litert.runtime.subgraph import InterpreterSubgraph


def test_the_installed_interpreter_is_laid_out_as_we_know_it() -> None:
    abi_check.check_abi()


def test_another_layout_is_an_error_that_names_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abi_check, "_is_checked", False)
    monkeypatch.setattr(InterpreterSubgraph, "tensor_name", lambda self, index: "?")
    with pytest.raises(LiteRtError, match=r"ai-edge-litert \d.*the name in TfLiteTensor") as error:
        abi_check.check_abi()
    assert error.value.status is Status.UNSUPPORTED_RUNTIME_VERSION
    monkeypatch.undo()
    abi_check.check_abi()


def test_a_profiler_is_not_written_over_another_field(monkeypatch: pytest.MonkeyPatch) -> None:
    abi_check.check_profiler()
    written: list[int] = []
    another_field = property(lambda self: 0x7F00, lambda self, address: written.append(address))
    monkeypatch.setattr(InterpreterSubgraph, "profiler", another_field)
    abi_check._run_with_profiler.cache_clear()
    with pytest.raises(
        LiteRtError, match="this release of ai-edge-litert does not report"
    ) as error:
        abi_check.check_profiler()
    assert error.value.status is Status.UNSUPPORTED and not written


def test_the_tiny_model_is_what_our_builder_writes(pytestconfig: pytest.Config) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 3), shape_signature=(-1, 3))
    y = builder.custom(DISPATCH_OP, [x], [("y", "float32", (1, 3))], options=b"some options")
    builder.output(builder.op("ADD", [x, y], [("z", "float32", (1, 3))]))
    path = Path(abi_check.TINY_MODEL)
    if pytestconfig.getoption("--golden"):
        path.write_bytes(to_bytes(builder.build()))
    assert path.read_bytes() == to_bytes(builder.build())
