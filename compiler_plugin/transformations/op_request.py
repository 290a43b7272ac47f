"""Checks the arguments for new ops and tensors before the graph is changed, and finds unused names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.model.blob import Blob
from litert.model.builtin_options import (
    BUILTIN_NUMBERS,
    count_outputs,
    make_builtin_options,
    usual_builtin_options,
)
from litert.model.graph import CUSTOM
from litert.model.table import Table


def check_request(
    op: str,
    inputs: object,
    attributes: Mapping[str, Any] | None,
    name: str,
    outputs: int | None,
    version: int,
    is_custom: bool,
) -> tuple[int, tuple[Table | None, Table | None], int]:
    """Checks the arguments of `Graph.create_op`; returns the operator's number, options and output count."""
    check_inputs(op, inputs)
    check_name(name)
    _check_number(op, "number of outputs", outputs, 0)
    _check_number(op, "version", version, 1)
    if attributes is not None and not isinstance(attributes, Mapping):
        raise refused(
            f"the attributes of {op} must be a dict, but are {attributes!r:.100}",
            "Pass a dict from the attributes' names to their values.",
        )
    if is_custom:
        return CUSTOM, (None, None), 1 if outputs is None else outputs
    number = builtin_number(op)
    wanted = {**usual_builtin_options(op), **(attributes or {})}
    count = count_outputs(op, wanted) if outputs is None else outputs
    return number, make_builtin_options(op, wanted), count


def check_inputs(op: str, inputs: object) -> None:
    """Raises an error if `inputs` is a single input instead of a list of inputs."""
    if isinstance(inputs, str) or not isinstance(inputs, Sequence):
        raise refused(
            f"the inputs of {op} must be a list, but are {inputs!r:.100}",
            "Put the input into a list: [x].",
        )


def builtin_number(name: str) -> int:
    """Returns the number of a builtin operator; the error for an unknown name suggests the most similar name."""
    number = BUILTIN_NUMBERS.get(name)
    if number is None or number == CUSTOM:
        raise refused(
            f"TFLite has no operator '{name}'",
            did_you_mean(name, BUILTIN_NUMBERS, "For a custom op, pass is_custom=True."),
        )
    return number


def find_plain_type(value: Any) -> ElementType | None:
    """Returns the default element type for Python numbers; None for all other values."""
    import numpy as np

    if isinstance(value, np.ndarray | np.generic | Blob | bytes | memoryview):
        return None
    try:
        kind = np.asarray(value).dtype.kind
    except ValueError:  # encoding raises the error later
        return None
    return {"f": ElementType.FLOAT32, "i": ElementType.INT32}.get(kind)


def _check_number(op: str, what: str, number: int | None, least: int) -> None:
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    if number is not None and not (is_whole and number >= least):
        raise refused(
            f"the {what} of {op} cannot be {number!r:.100}",
            f"Give a whole number of at least {least}.",
        )


class FreeNames:
    """Finds names that are not in use. The names in use are collected at the first request for a new name."""

    def __init__(self, find_first: Callable[[], Iterable[str]] = tuple) -> None:
        self._find_first = find_first
        self._taken: dict[str, int] | None = None  # maps each name to its last number

    def find_free(self, base: str) -> str:
        """Returns a name that is not in use, with a number appended if needed, and marks that name as in use."""
        if self._taken is None:
            self._taken = dict.fromkeys(self._find_first(), 0)
        name, number = base, self._taken.get(base, 0)
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken[base] = number  # the next search for this base continues here
        self._taken[name] = self._taken.get(name, 0)
        return name

    def has(self, name: str) -> bool:
        """Returns whether a name is already in use."""
        return name in (self._find_first() if self._taken is None else self._taken)

    def note(self, name: str) -> None:
        """Marks a name as in use because another part of the model has it."""
        if self._taken is not None:
            self._taken.setdefault(name, 0)


def check_name(name: str) -> None:
    """Raises an error if a value cannot be the name of a tensor."""
    if not isinstance(name, str):
        raise refused(
            f"the name of a tensor must be a string, but is {name!r:.100}", "Pass a string."
        )


def refused(what: str, hint: str = "") -> LiteRtError:
    """Returns an INVALID_ARGUMENT error for a call that a graph, a node or an op refuses."""
    return LiteRtError(Status.INVALID_ARGUMENT, what, hint=hint)
