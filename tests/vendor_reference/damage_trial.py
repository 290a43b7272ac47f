"""Tries damaged inputs, which may cause a crash, in a child process."""

from __future__ import annotations

from pathlib import Path

from litert.host.child import call_in_child


def try_in_child(target: str, folder: Path, timeout_s: float, **settings: int) -> None:
    """Fails with the problems that the child found, or with the input that it tried when it crashed.

    Args:
      target: generator function for the child; it yields each input's text, then its problem, or "".
      folder: folder for the child's files.
      timeout_s: time limit for all inputs.
      settings: further entries of the target's argument.
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
