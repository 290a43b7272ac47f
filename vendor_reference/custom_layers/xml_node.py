"""An element of a custom layer configuration while its layer is read: its attributes, its errors, its notes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.status import Status
from vendor_reference.custom_layers.xml_text import XmlElement

_INTEGER = re.compile(r"[ ]*([+-]?[0-9]+)[ ]*")
_MOST_DIGITS = 9


@dataclass(slots=True)
class LayerPlace:
    """The layer that is being read: errors have its file's path, notes the file's name."""

    path: str
    file_name: str
    name: str = ""  # until it is known
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class XmlNode:
    """An element in its layer."""

    element: XmlElement
    place: LayerPlace

    @property
    def attributes(self) -> Mapping[str, str]:
        return self.element.attributes

    def children(self, *names: str) -> list[XmlNode]:
        """The children of these names, in order."""
        return [XmlNode(c, self.place) for c in self.element.children if c.name in names]

    def first(self, name: str) -> XmlNode | None:
        """The first child of that name; others are ignored, with a note."""
        children = self.children(name)
        for other in children[1:]:
            line = children[0].element.line
            other.note(f"is ignored: the first one, in line {line}, counts")
        return children[0] if children else None

    def only(self, name: str) -> XmlNode:
        """The same where there must be one."""
        child = self.first(name)
        if child is None:
            raise self.error(f"no <{name}> in it")
        return child

    def text(self, name: str, what: str, may_be_empty: bool = False) -> str:
        """An attribute that must be there; `what` says in errors what it is."""
        text = self.attributes.get(name)
        if text is None or not (text or may_be_empty):
            state = "is missing" if text is None else "is empty"
            raise self.error(f"attribute '{name}' ({what}) {state}")
        return text

    def integer(self, name: str) -> int | None:
        """A whole number; None where there is no such attribute."""
        text = self.attributes.get(name)
        if text is None:
            return None
        found = _INTEGER.fullmatch(text)
        if found is None:
            raise self.error(f"{name} '{text}' is not a whole number")
        if len(found[1].lstrip("+-0")) > _MOST_DIGITS:
            raise self.error(f"{name} has more than {_MOST_DIGITS} digits")
        return int(found[1])

    def index(self, name: str, most: int) -> int:
        """An index that must be there; -1 counts as absent."""
        index = self.integer(name)
        if index is None or index == -1:
            raise self.error(f"no {name}")
        if not 0 <= index <= most:
            raise self.error(f"{name} {index} is not from 0 to {most}")
        return index

    def formula(self, name: str, text: str) -> Formula:
        """A formula that an attribute has."""
        try:
            return Formula(text)
        except LiteRtError as error:
            raise self.error(f"{name}: {error.what}", error.hint) from None

    def note_unknown(
        self,
        attributes: Mapping[str, Collection[str]],
        children: Mapping[str, Collection[str]],
    ) -> None:
        """Notes what nobody reads, here and below; both mappings are by element."""
        name = self.element.name
        for attribute in self.attributes:
            if attribute not in attributes[name]:
                self.note(f"attribute '{attribute}' is unknown, and ignored")
        for attribute in self.element.repeated:
            self.note(f"attribute '{attribute}' is given again: the first one counts")
        for child in self.element.children:
            node = XmlNode(child, self.place)
            if child.name in children.get(name, ()):
                node.note_unknown(attributes, children)
            else:
                node.note(f"is unknown in <{name}>, and ignored")

    def note(self, what: str) -> None:
        """Says something of this element in the report."""
        where = f"{self.place.file_name}, line {self.element.line}"
        self.place.notes.append(f"{where}: <{self.element.name}> {what}.")

    def error(self, what: str, hint: str = "") -> LiteRtError:
        """An error about this element."""
        of_layer = f" of layer '{self.place.name}'" if self.place.name else ""
        return LiteRtError(
            Status.INVALID_ARGUMENT,
            f"<{self.element.name}>{of_layer}: {what}",
            f"{self.place.path}, line {self.element.line}",
            hint,
        )
