"""An element of a custom layer configuration, with its attributes, errors and notes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.status import Status

_INTEGER = re.compile(r"[ ]*([+-]?[0-9]+)[ ]*")
_MOST_DIGITS = 9


@dataclass(slots=True)
class XmlLayer:
    """A top-level element of a configuration, with the notes about the element and its descendants."""

    path: str
    name: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class XmlElement:
    """An XML element, without its text content.

    Attributes:
      line: Line number where the element starts, from 1.
      attributes: Attributes by name; character references are replaced, and line breaks become blanks.
      repeated: Names of attributes that occur several times in the element; only the first value is used.
      layer: Top-level element that contains this element, for messages and notes.
    """

    name: str
    line: int
    attributes: Mapping[str, str]
    repeated: Sequence[str]
    layer: XmlLayer
    children: list[XmlElement] = field(default_factory=list)

    def named(self, *names: str) -> list[XmlElement]:
        """Returns the child elements with the given names, in order."""
        return [child for child in self.children if child.name in names]

    def find_only(self, name: str) -> XmlElement | None:
        """Returns the child element with the given name, or None; raises an error if there are two."""
        children = self.named(name)
        if len(children) > 1:
            raise children[1].error(
                f"the element is there twice, first in line {children[0].line}",
                f"A layer can have only one <{name}>: remove the second.",
            )
        return children[0] if children else None

    def only(self, name: str) -> XmlElement:
        """Returns the child element with the given name; raises an error if it is missing."""
        child = self.find_only(name)
        if child is None:
            raise self.error(f"element <{name}> is missing")
        return child

    def text(self, name: str, what: str, may_be_empty: bool = False) -> str:
        """Returns the text of a required attribute; `what` describes the attribute in error messages."""
        text = self.attributes.get(name)
        if text is None or not (text or may_be_empty):
            state = "is missing" if text is None else "is empty"
            raise self.error(f"attribute '{name}' ({what}) {state}")
        return text

    def integer(self, name: str) -> int | None:
        """Returns an attribute's value as an integer; None if the attribute is missing."""
        text = self.attributes.get(name)
        if text is None:
            return None
        found = _INTEGER.fullmatch(text)
        if found is None:
            raise self.error(f"attribute '{name}' is '{text}', which is not a whole number")
        if len(found[1].lstrip("+-0")) > _MOST_DIGITS:
            raise self.error(f"attribute '{name}' has more than {_MOST_DIGITS} digits")
        return int(found[1])

    def index(self, name: str, most: int) -> int:
        """Returns the value of a required attribute as an index."""
        index = self.integer(name)
        if index is None:
            raise self.error(f"attribute '{name}' is missing")
        if not 0 <= index <= most:
            raise self.error(
                f"attribute '{name}' is {index}, which is not in the range 0 to {most}"
            )
        return index

    def formula(self, name: str, text: str) -> Formula:
        """Parses the text of an attribute as a formula."""
        try:
            return Formula(text)
        except LiteRtError as error:
            raise self.error(f"attribute '{name}': {error.what}", error.hint) from None

    def note_unknown(
        self,
        attributes: Mapping[str, Collection[str]],
        children: Mapping[str, Collection[str]],
    ) -> None:
        """Adds a note for each unknown attribute or child of this element and its descendants.

        The known attributes and the known children are arguments, by element name.
        """
        for attribute in self.attributes:
            if attribute not in attributes[self.name]:
                self.note(f"attribute '{attribute}' is unknown, and is ignored")
        for attribute in self.repeated:
            self.note(f"attribute '{attribute}' is repeated, and the first value is used")
        for child in self.children:
            if child.name in children.get(self.name, ()):
                child.note_unknown(attributes, children)
            else:
                child.note(f"this element is unknown in <{self.name}>, and is ignored")

    def note(self, what: str) -> None:
        """Adds a note about this element to the report."""
        self.layer.notes.append(f"line {self.line}, <{self.name}>: {what}.")

    def error(self, what: str, hint: str = "") -> LiteRtError:
        """Creates an error about this element."""
        of_layer = f" of layer '{self.layer.name}'" if self.layer.name else ""
        return LiteRtError(
            Status.INVALID_ARGUMENT,
            f"<{self.name}>{of_layer}: {what}",
            f"{self.layer.path}, line {self.line}",
            hint,
        )
