"""Damaged inputs that a child process tries, where they may crash it."""

from __future__ import annotations

from pathlib import Path

from litert.host.child import call_in_child


def try_in_child(target: str, folder: Path, timeout_s: float, **settings: int) -> None:
    """Fails with what went wrong in the child, or with what it tried when it crashed.

    Args:
      target: a generator function in the child: yields what it tries next, then its problem, or "".
      folder: for its files.
      timeout_s: for all of it.
      settings: what else it is called with.
    """
    tried, problems = "nothing", []
    argument = {"folder": str(folder), **settings}
    try:
        answers = call_in_child(target, argument, timeout_s=timeout_s, subject="a damaged input")
        for text in answers:
            tried, problem = str(text), str(next(answers))
            if problem:
                problems.append(f"{tried}: {problem}")
    except Exception as error:
        raise AssertionError(f"{tried}: {error}") from error
    assert not problems, "\n".join(problems)
