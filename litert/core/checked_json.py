"""Reads untrusted JSON field by field; each error has the JSON element's path, and says what was expected."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from math import isfinite
from typing import Any, TypeVar

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

_Kind = TypeVar("_Kind")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class JsonNode:
    """An element of a JSON document, with its path for error messages.

    `JsonNode` is not a frozen dataclass, because an instance of a frozen dataclass takes three times as long to
    make, and a large file has hundreds of thousands of elements.

    Attributes:
      value: The element's value in the form that Python's module `json` returns.
      where: Name of the file or module that contains the JSON document, for error messages.
      status: Status of errors about the element.
    """

    __slots__ = ("_parent", "_step", "status", "value", "where")

    def __init__(
        self,
        value: object,
        step: str | int,
        where: str,
        status: Status,
        parent: JsonNode | None = None,
    ) -> None:
        """Makes the field or array item `step` of `parent`, or a root element with the path `step`."""
        self.value = value
        self.where = where
        self.status = status
        self._step = step
        self._parent = parent

    @property
    def path(self) -> str:
        """The path from the root to the element, such as `$.arguments[2].key`."""
        step, parent = self._step, self._parent
        if parent is None:
            return str(step)
        return f"{parent.path}[{step}]" if isinstance(step, int) else f"{parent.path}.{step}"

    @classmethod
    def parse(cls, data: bytes | memoryview, where: str, status: Status) -> JsonNode:
        """Parses a JSON document in UTF-8, with or without a byte order mark.

        Raises:
          LiteRtError: The text is not JSON; the error has the status `status`, and gives the line and column of
            the mistake.
        """
        try:
            text = str(data, "utf-8-sig")
            value: object = json.loads(text, object_pairs_hook=_without_duplicates)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            what = f"the text is not JSON: {error.msg.lower().removesuffix(' at').removesuffix(' starting')}"
            raise LiteRtError(status, what, f"{where}, {place}" if where else place) from error
        except UnicodeDecodeError as error:
            raise LiteRtError(
                status, f"the text is not UTF-8 at byte {error.start}", where
            ) from error
        except RecursionError as error:
            raise LiteRtError(status, "the JSON is nested too deeply", where) from error
        except ValueError as error:
            is_long = "integer string conversion" in str(error)  # Python's words about long numbers
            reason = "a number has too many digits" if is_long else str(error)
            raise LiteRtError(status, f"cannot read the JSON: {reason}", where) from error
        return cls(value, "$", where, status)

    def error(self, what: str, hint: str = "") -> LiteRtError:
        """Returns an error about this element; the caller raises the error."""
        path = self.path
        place = "at the top level, " if path == "$" else f"{path}: "
        return LiteRtError(self.status, f"{place}{what}", self.where, hint)

    def fields(
        self, required: Collection[str], optional: Collection[str] = (), is_open: bool = False
    ) -> Mapping[str, JsonNode]:
        """Returns the fields of a JSON object; a field with the value `null` counts as absent.

        Args:
          required: Names of the fields that the object must have.
          optional: Names of the fields that the object may have.
          is_open: Whether the object may have other fields, which are ignored.

        Raises:
          LiteRtError: The element is not an object, a required field is missing, or a field has an unknown name.
        """
        value = self._expect(dict, "an object")
        known = (*required, *optional)
        others = [name for name in value if name not in known]
        if others and not is_open:
            raise self.error(f"unknown field '{_printable(others[0])}'", _meant(others[0], known))
        for name in required:
            if value.get(name) is None:
                raise self.error(f"field '{name}' is missing")
        found = {n: v for n, v in value.items() if n in known} if others else value
        return {name: self._child(v, name) for name, v in found.items() if v is not None}

    def entries(self) -> Mapping[str, JsonNode]:
        """Returns the entries of a JSON object; the entries may have any names."""
        value = self._expect(dict, "an object")
        for name in value:
            if _HALF_PAIR.search(str(name)):
                raise self.error(f"the name {name!a} contains half of a surrogate pair")
        return {str(name): self._child(v, str(name)) for name, v in value.items()}

    def items(self, least: int = 0, most: int | None = None) -> list[JsonNode]:
        """Returns the elements of an array; the array must have `least` to `most` elements."""
        value = self._expect(list, "an array")
        if len(value) < least or (most is not None and len(value) > most):
            allowed = f"{least} or more" if most is None else f"{least} to {most}"
            allowed = str(least) if least == most else allowed
            raise self.error(
                f"the array has {count_text(len(value), 'element')}, but must have {allowed}"
            )
        return [self._child(v, i) for i, v in enumerate(value)]

    def integer(self, low: int, high: int) -> int:
        """Returns a whole number from `low` to `high`, both included."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{_shown(value)} is not a whole number")
        if not low <= value <= high:
            if low == high:
                raise self.error(f"the value is {value}, but must be {low}")
            raise self.error(f"{value} is not in the range {low} to {high}")
        return value

    def number(self) -> float:
        """Returns a finite number."""
        value = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.error(f"{_shown(value)} is not a number")
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        if not isfinite(number):
            raise self.error(f"{_shown(value)} is not a finite number")
        return number

    def boolean(self) -> bool:
        """Returns a boolean: `true` or `false`."""
        return self._expect(bool, "true or false")

    def text(self, allowed: Collection[str] = (), for_c: bool = True) -> str:
        """Returns a string; the string must be encodable in UTF-8.

        If `for_c` is true, the string must not contain NUL. If `allowed` is not empty, the string must be in
        `allowed`.
        """
        value = self._expect(str, "a string")
        if (for_c and "\0" in value) or _HALF_PAIR.search(value):
            raise self.error(f"{value!a} contains a NUL character or half of a surrogate pair")
        if allowed and value not in allowed:
            raise self.error(f"unknown value '{value}'", _meant(value, allowed))
        return value

    def at(self, *steps: str | int) -> JsonNode:
        """Returns the element at a path of names and indices; if none exists, an element with the value null."""
        node = self
        for step in steps:
            value: Any = node.value
            found = value.get(step) if isinstance(value, dict) else value[step]
            node = node._child(found, step)
        return node

    def _expect(self, kind: type[_Kind], name: str) -> _Kind:
        if not isinstance(self.value, kind):
            raise self.error(f"{_shown(self.value)} is not {name}")
        return self.value

    def _child(self, value: object, step: str | int) -> JsonNode:
        return JsonNode(value, step, self.where, self.status, self)


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the field '{_printable(twice)}' occurs twice in one object")
    return fields


def _meant(name: str, known: Collection[str]) -> str:
    """Returns a hint with a similar spelling, or else with all known names."""
    return did_you_mean(name, known) or f"Known: {', '.join(known)}."


def _shown(value: object) -> str:
    text = _printable(json.dumps(value, ensure_ascii=False, default=str))
    end = '..."' if text.startswith('"') else "..."
    return text if len(text) <= 40 else text[: 40 - len(end)] + end


def _printable(text: str) -> str:
    """Replaces lone halves of surrogate pairs by escapes, because output streams refuse such halves."""
    return text.encode("utf-8", "backslashreplace").decode()
