"""Tests the XML reader: it accepts what OpenVINO accepts, and refuses the rest."""

from __future__ import annotations

from contextlib import suppress
from xml.etree.ElementTree import Element, fromstring, tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.xml_element import XmlElement
from vendor_reference.custom_layers.xml_text import parse_xml


def parse(text: str | bytes) -> list[XmlElement]:
    return parse_xml(text if isinstance(text, bytes) else text.encode(), "layers.xml")


def only(text: str | bytes) -> XmlElement:
    (element,) = parse(text)
    return element


def _with_children(element: Element, children: list[Element]) -> Element:
    element.extend(children)
    return element


def _outline(element: Element) -> tuple[object, ...]:
    return element.tag, element.attrib, [_outline(child) for child in element]


def _outline_of(element: XmlElement) -> tuple[object, ...]:
    return element.name, element.attributes, [_outline_of(child) for child in element.children]


def test_elements_have_lines_attributes_and_children() -> None:
    root = only('<a>\n <b x="1" y="2"/>\n\n <c\n  z="3"></c ></a>')
    assert (root.name, root.line, root.attributes) == ("a", 1, {})
    assert [(c.name, c.line, c.attributes) for c in root.children] == [
        ("b", 2, {"x": "1", "y": "2"}),
        ("c", 4, {"z": "3"}),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<a x='1'/>",
        '<!-- first --><?xml version="1.0"?><a x="1"/>',
        '<a x="1"/><?xml version="1.0"?>',
        '\ufeff<a x="1"/>',
        '<!DOCTYPE a><a x="1"/>',
        '<!DOCTYPE a [ <!ELEMENT a (#PCDATA)> <!-- > ]> --> ]><a x="1"/>',
        '<!-- two -- dashes --><a x="1"/>',
        'stray text <a x="1">more</a> & so on',
        '<a\r\n x="1"\r\n/>\r\n',
        '<a x = "1" x="2"/>',
        '<a x="&#49;"/>',
        '<a x="&#x31;">]]></a>',
        '<a x="1"><![CDATA[ <b> ]]></a>',
        '<a x="1"/>'.encode("utf-16"),
        b'<!-- caf\xe9 --><a x="1"/>',
    ],
)
def test_what_openvino_takes_is_read(text: str | bytes) -> None:
    element = only(text)
    assert element.name == "a" and element.attributes == {"x": "1"} and not element.children


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("a<b && c>d", "a<b && c>d"),
        ("&lt;&gt;&amp;&quot;&apos;", "<>&\"'"),
        ("a\nb\tc\r\nd", "a b c d"),
        ("&unknown; &#xffffffff; &#9999999;", "&unknown; &#xffffffff; &#9999999;"),
        ("&amp;lt;", "&lt;"),
        ("größe", "größe"),
    ],
)
def test_a_value_is_read_as_it_is_meant(raw: str, value: str) -> None:
    assert only(f'<a x="{raw}"/>').attributes == {"x": value}


def test_bytes_that_are_not_utf8_are_latin_1() -> None:
    assert only(b'<a x="caf\xe9 \xc3\xa9"/>').attributes == {"x": "café é"}


def test_there_may_be_several_roots() -> None:
    assert [e.name for e in parse("<a/><b></b>\n<a/>")] == ["a", "b", "a"]


def test_an_attribute_that_is_given_again_is_known() -> None:
    assert only('<a x="1" y="" x="2"/>').repeated == ("x",)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("<a x=1/>", 1, "attribute 'x' of <a> has no value in quotes"),
        ("<a>\n<b x/></a>", 2, "attribute 'x' of <b> has no value in quotes"),
        ('<a x="1/>', 1, "attribute 'x' of <a> has no value in quotes"),
        ('<a x="1"y="2"/>', 1, "in start tag <a>, a blank is missing before 'y'"),
        ("<a\n\n ?/>", 3, "the character '?' is not the start of an attribute"),
        ("<a / b='1'>", 1, "the character '/' is not the start of an attribute"),
        ("<a>\n</b>", 2, "the end tag of <a> (line 1) is missing before </b>"),
        ("<a/>\n</a>", 2, "end tag </a> has no start tag"),
        ("\n<a><b></b>", 2, "element <a> has no end tag"),
        ("<a><b>", 1, "element <b> has no end tag"),
        ("<a", 1, "<a> does not end with '>'"),
        ("<a></a", 1, "</a> does not end with '>'"),
        ("<>", 1, "no name follows '<'"),
        ("<a>1 < 2</a>", 1, "no name follows '<'"),
        ("</>", 1, "no name follows '</'"),
        ("<", 1, "no name follows '<'"),
        ("<!-- no end ->", 1, "a comment does not end"),
        ("\n<?xml", 2, "an instruction '<?' does not end"),
        ("<![CDATA[ ]>", 1, "a CDATA section does not end"),
        ("<!DOCTYPE a [", 1, "the DOCTYPE does not end"),
        ("<!ELEMENT a>", 1, "starts neither a comment nor a DOCTYPE"),
        ('<a\n\nx="&#7;"/>', 3, "attribute 'x' of <a> contains the character '\\x07'"),
        ('<a x="&#10;"/>', 1, "attribute 'x' of <a> contains the character '\\n'"),
        ('<a x="&#xdce9;"/>', 1, "attribute 'x' of <a> contains the character '\\udce9'"),
    ],
)
def test_what_is_no_xml_is_refused_with_its_line(text: str | bytes, line: int, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        parse(text)
    assert says in error.value.what and error.value.status is Status.INVALID_ARGUMENT
    assert error.value.where == f"layers.xml, line {line}"


HOSTILE = {
    "billion laughs": (
        '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><a x="&b;"/>', "declares entities"),
    "a file by an entity": (
        '<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><a>&f;</a>', "declares entities"),
    "a parameter entity": ("<!DOCTYPE a [<!ENTITY % p 'x'> %p;]><a/>", "declares entities"),
    "an external document type": ('<!DOCTYPE a SYSTEM "http://x/y.dtd"><a/>', "refers to another file"),
    "deep": ("<a>" * 100_000, "the elements are nested more than 50 deep"),
    "many": ("<a/>" * 100_001, "more than 100000 elements"),
    "huge": (" " * (4 << 20) + "<a/>", "larger than 4 MiB"),
    "zero bytes": ("<a/>\0", "a zero byte at offset 4"),
    "half a character": (b"\xff\xfe<", "not UTF-16 at byte"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "says"), HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_files_are_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(LiteRtError) as error:
        parse(text)
    assert says in error.value.what and "layers.xml" in error.value.where


@pytest.mark.parametrize(
    "piece",
    ["<!--", "<!DOCTYPE [", "<!DOCTYPE <!--", "<a ", "<a x='", "<?", "&", "<a x='&amp;'>\n</a>"],
)
@pytest.mark.parametrize("before", ["", "<!DOCTYPE ", "<a x='1' "])
def test_a_megabyte_of_any_piece_comes_to_an_end(before: str, piece: str) -> None:
    """Checks that time does not grow with the square of the file's size, which would take hours."""
    text = before + piece * ((1 << 20) // len(piece))
    try:
        assert parse(text) is not None
    except LiteRtError as error:
        assert error.where.startswith("layers.xml, line ")


_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,5}", fullmatch=True)
_values = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Cn"], whitelist_characters="<>&\"'"),
    max_size=8,
)
_trees: st.SearchStrategy[Element] = st.recursive(
    st.builds(Element, _names, st.dictionaries(_names, _values, max_size=3)),
    lambda inner: st.builds(
        _with_children,
        st.builds(Element, _names, st.dictionaries(_names, _values, max_size=3)),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)


@given(st.lists(_trees, max_size=3))
def test_well_formed_xml_is_read_as_other_parsers_read_it(trees: list[Element]) -> None:
    texts = [tostring(tree, "unicode") for tree in trees]
    expected = [_outline(fromstring(text)) for text in texts]
    assert [_outline_of(element) for element in parse("\n".join(texts))] == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_elements_or_an_error(data: bytes) -> None:
    with suppress(LiteRtError):
        parse(data)


@given(
    st.lists(
        st.sampled_from(
            ["<a", ">", "/>", "</a>", ' x="1"', " x='", "<!--", "-->", "<?", "?>", "<!DOCTYPE", "[", "]",
             '"', "<![CDATA[", "]]>", "\n", "&#1;", "&lt;", "<", "é"]
        ),
        max_size=20,
    ).map("".join)
)  # fmt: skip
def test_any_pieces_of_xml_are_elements_or_an_error(text: str) -> None:
    with suppress(LiteRtError):
        parse(text)
