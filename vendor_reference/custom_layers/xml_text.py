"""Parses the XML text of custom layer configurations into elements with line numbers.

A standard XML parser cannot read these files, since most are not well-formed XML documents: a file has several
root elements. Like OpenVINO, this parser also accepts an XML declaration anywhere, `--` in comments, raw `<` and
`&` in attribute values, values that are not UTF-8 (read as Latin-1), repeated attributes (the first is used) and
text between elements. The parser knows only the five predefined entities and numeric character references, and
rejects files that declare entities, so entities cannot do harm. Time and memory are linear in the file size.
"""

from __future__ import annotations

import re

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.xml_element import XmlElement, XmlLayer

_MOST_BYTES = 4 << 20
_MOST_ELEMENTS = 100_000
_MOST_DEPTH = 50
_NAME = re.compile(r"[^\W\d][\w:.\-]*")
_SPACE = re.compile(r"[ \t\r\n]*")
_END = re.compile(r"[ \t\r\n]*>")
_VALUE = re.compile(r"""[ \t\r\n]*=[ \t\r\n]*(?:"([^"]*)"|'([^']*)')""")
_DOCTYPE_PART = re.compile(r"""<!--.*?(?:-->|\Z)|"[^"]*"|'[^']*'|<!ENTITY|[][>]""", re.DOTALL)
_EXTERNAL = re.compile(r"\b(?:SYSTEM|PUBLIC)\b")
_LINE_BREAK = re.compile(r"\r\n|[\r\n\t]")
_REFERENCE = re.compile(r"&(?:(lt|gt|amp|quot|apos)|#(\d{1,7})|#x([0-9A-Fa-f]{1,6}));")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_CONTROL = re.compile("[\0-\x1f\x7f\ud800-\udfff]")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")


def parse_xml(data: bytes | memoryview, where: str) -> list[XmlElement]:
    """Parses the top-level elements of a text in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the line number and a description of the error.
    """
    if len(data) > _MOST_BYTES:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"the XML text is larger than {_MOST_BYTES >> 20} MiB", where
        )
    return _Parser(_decode(bytes(data), where), where).elements()


def _decode(data: bytes, where: str) -> str:
    """Decodes the text; bytes that are not UTF-8 become surrogates."""
    try:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = data.decode("utf-16")
        else:
            text = data.decode("utf-8-sig", "surrogateescape")
    except UnicodeDecodeError as error:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"the text is not UTF-16 at byte {error.start}", where
        ) from error
    if "\0" in text:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file is not XML text, because it contains a zero byte at offset {text.index(chr(0))}",
            where,
        )
    return text


class _Parser:
    """A parser that goes from `<` to `<`."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._at = 0
        self._line = 1
        self._counted = 0
        self._num_elements = 0
        self._roots: list[XmlElement] = []
        self._open: list[XmlElement] = []

    def elements(self) -> list[XmlElement]:
        text = self._text
        while (start := text.find("<", self._at)) >= 0:
            self._at = start
            if text.startswith("<!--", start):
                self._skip(start + 4, "-->", "a comment")
            elif text.startswith("<![CDATA[", start):
                self._skip(start + 9, "]]>", "a CDATA section")
            elif text.startswith("<?", start):
                self._skip(start + 2, "?>", "an instruction '<?'")
            elif text.startswith("<!", start):
                self._doctype()
            elif text.startswith("</", start):
                self._end_tag()
            else:
                self._start_tag()
        if self._open:
            element = self._open[-1]
            raise self._error(f"element <{element.name}> has no end tag", line=element.line)
        return self._roots

    def _skip(self, start: int, end: str, what: str) -> None:
        found = self._text.find(end, start)
        if found < 0:
            raise self._error(f"{what} does not end with '{end}'")
        self._at = found + len(end)

    def _doctype(self) -> None:
        """Skips a DOCTYPE; rejects a DOCTYPE that declares entities or refers to another file."""
        start = self._at
        if not self._text.startswith("<!DOCTYPE", start):
            raise self._error("'<!' starts neither a comment nor a DOCTYPE")
        depth, inside = 0, start
        for part in _DOCTYPE_PART.finditer(self._text, start + 9):
            token = part[0]
            if token == "<!ENTITY":
                raise self._error(
                    "the DOCTYPE declares entities, which are not allowed",
                    "Replace each entity by its text.",
                )
            if depth == 0 and _EXTERNAL.search(self._text, inside, part.start()):
                raise self._error("the DOCTYPE refers to another file", "Remove the DOCTYPE.")
            inside = part.end()
            if token == ">" and depth == 0:
                self._at = part.end()
                return
            depth += (token == "[") - (token == "]")
        raise self._error("the DOCTYPE does not end with '>'")

    def _start_tag(self) -> None:
        line, text = self._line_now(), self._text
        name = self._name(
            self._at + 1, "no name follows '<'; write &lt; for the character '<' in a text"
        )
        attributes: dict[str, str] = {}
        repeated: list[str] = []
        while True:
            space = _SPACE.match(text, self._at)
            assert space is not None  # it may be empty
            before, self._at = self._at, space.end()
            if text.startswith(("/>", ">"), self._at):
                break
            if self._at >= len(text):
                raise self._error(f"start tag <{name}> does not end with '>'", line=line)
            if self._at == before:
                raise self._error(
                    f"in start tag <{name}>, a blank is missing before {text[self._at]!a}"
                )
            wrong = f"in start tag <{name}>, the character {text[self._at]!a} is not the start of an attribute"
            key = self._name(self._at, wrong)
            value = self._value(name, key)
            if key in attributes:
                repeated.append(key)
            attributes.setdefault(key, value)
        if self._open:
            layer, siblings = self._open[-1].layer, self._open[-1].children
        else:
            layer, siblings = XmlLayer(self._where, attributes.get("name", "")), self._roots
        siblings.append(XmlElement(name, line, attributes, tuple(repeated), layer))
        self._end_start_tag(siblings[-1])

    def _end_start_tag(self, element: XmlElement) -> None:
        self._num_elements += 1
        if self._num_elements > _MOST_ELEMENTS:
            raise self._error(f"the XML text has more than {_MOST_ELEMENTS} elements")
        if self._text.startswith("/>", self._at):
            self._at += 2
            return
        self._at += 1
        self._open.append(element)
        if len(self._open) > _MOST_DEPTH:
            raise self._error(f"the elements are nested more than {_MOST_DEPTH} deep")

    def _end_tag(self) -> None:
        name = self._name(self._at + 2, "no name follows '</'")
        if not self._open:
            raise self._error(f"end tag </{name}> has no start tag")
        element = self._open.pop()
        if element.name != name:
            raise self._error(
                f"the end tag of <{element.name}> (line {element.line}) is missing before </{name}>"
            )
        end = _END.match(self._text, self._at)
        if end is None:
            raise self._error(f"end tag </{name}> does not end with '>'")
        self._at = end.end()

    def _name(self, start: int, otherwise: str) -> str:
        found = _NAME.match(self._text, start)
        if found is None:
            raise self._error(otherwise)
        self._at = found.end()
        return found[0]

    def _value(self, element: str, name: str) -> str:
        found = _VALUE.match(self._text, self._at)
        if found is None:
            raise self._error(
                f"attribute '{name}' of <{element}> has no value in quotes", f'Write {name}="...".'
            )
        line, self._at = self._line_now(), found.end()
        raw = found[1] if found[1] is not None else found[2]
        raw = _NOT_UTF8.sub(lambda found: chr(ord(found[0]) & 0xFF), raw)  # it is in Latin-1
        value = _REFERENCE.sub(_character, _LINE_BREAK.sub(" ", raw))
        if bad := _CONTROL.search(value):
            what = f"attribute '{name}' of <{element}> contains the character {bad[0]!a}"
            raise self._error(what, line=line)
        return value

    def _line_now(self) -> int:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return self._line

    def _error(self, what: str, hint: str = "", line: int = 0) -> LiteRtError:
        place = f"{self._where}, line {line or self._line_now()}"
        return LiteRtError(Status.INVALID_ARGUMENT, what, place, hint)


def _character(found: re.Match[str]) -> str:
    """Resolves a reference; a number without a character stays unchanged."""
    if found[1]:
        return _CHARACTERS[found[1]]
    code = int(found[2]) if found[2] else int(found[3], 16)
    return chr(code) if code <= 0x10FFFF else found[0]
