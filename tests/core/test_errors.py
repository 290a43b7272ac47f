"""Tests `LiteRtError`: its text, its status, and its transfer to another process."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from litert.core.errors import LiteRtError, refusal_of
from litert.core.status import Status


@pytest.mark.parametrize(
    ("number", "status", "text"),
    [
        (Status.UNSUPPORTED, Status.UNSUPPORTED, "UNSUPPORTED: x (here). Do that."),
        (5, Status.UNSUPPORTED, "UNSUPPORTED: x (here). Do that."),
        (9, Status.UNKNOWN, "UNKNOWN: x (here). Do that."),
        (77, Status.UNKNOWN, "UNKNOWN: x (status 77) (here). Do that."),
        (-1, Status.UNKNOWN, "UNKNOWN: x (status -1) (here). Do that."),
    ],
)
def test_any_number_makes_an_error_that_crosses_processes(
    number: int, status: Status, text: str
) -> None:
    error = LiteRtError(number, "x", "here", "Do that.")
    assert error.status is status and str(error) == text
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, LiteRtError) and again.status is status
    assert (str(again), again.args) == (text, error.args)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_an_error_of_a_system_without_memory_says_so(error: Exception) -> None:
    found = refusal_of(error)
    assert found is not None and found.status is Status.MEMORY_ALLOCATION_FAILURE


def test_another_error_of_python_is_not_the_systems() -> None:
    assert refusal_of(RuntimeError("a bug")) is None


def test_an_error_imports_only_its_statuses() -> None:
    code = (
        "import sys; before = set(sys.modules); import litert.core.errors; "
        "print(*sorted(m for m in set(sys.modules) - before if m.startswith('litert')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ["litert", "litert.core", "litert.core.errors", "litert.core.status"]
    assert done.stdout.split() == names
