"""A `<CustomLayer>` of a custom layer configuration becomes a layer.

What OpenVINO takes is taken, but for its accidents; what it ignores is ignored with a note. Where it takes only
the first of several `CompilerOptions`, all are joined in order, as the format's description has them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.custom_layers.asset_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import (
    Binding,
    CustomLayer,
    DataBinding,
    Define,
    Format,
    InternalBinding,
    TensorBinding,
    WorkSizes,
)
from vendor_reference.custom_layers.formula import Formula
from vendor_reference.custom_layers.value_sources import FlexOption, Literal
from vendor_reference.custom_layers.xml_text import XmlElement

TYPE = "SimpleGPU"
_VERSION = 1
_ATTRIBUTES: Mapping[str, Collection[str]] = {
    "CustomLayer": ("name", "type", "version"),
    "Kernel": ("entry",),
    "Source": ("filename",),
    "Define": ("name", "param", "type", "default"),
    "Buffers": (),
    "Tensor": ("arg-index", "type", "port-index", "format", "size"),
    "Data": ("name", "arg-index"),
    "CompilerOptions": ("options",),
    "WorkSizes": ("global", "local", "dim"),
}
_CHILDREN: Mapping[str, Collection[str]] = {
    "CustomLayer": ("Kernel", "Buffers", "CompilerOptions", "WorkSizes"),
    "Kernel": ("Source", "Define"),
    "Buffers": ("Tensor", "Data"),
}
_FORMATS = {name: f for f in Format for name in (f.value, f.value.lower())}
_INTEGER = re.compile(r"[ ]*([+-]?[0-9]{1,9})[ ]*")
_DEFINE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[( ].*)?")
_DIM = re.compile(r"output|input(?:,[ ]*([0-9]{1,5}))?")
_MOST_ARGUMENTS = 256
_MOST_PORTS = 65_535


@dataclass(slots=True)
class XmlLayer:
    """A layer that has been read, but for its files.

    Attributes:
      layer: without sources.
      sources: names of files, each with its line.
    """

    layer: CustomLayer
    sources: Sequence[tuple[str, int]]

    def with_files(self, op_name: str, files: AssetFiles) -> CustomLayer:
        """The layer for an op, with its sources and what they include.

        Raises:
          LiteRtError: NOT_FOUND, FILE_IO or INVALID_ARGUMENT, with line and file.
        """
        sources = [files.read(name, f"line {line}, <Source>") for name, line in self.sources]
        headers = files.headers(sources)
        return replace(self.layer, op_name=op_name, sources=sources, headers=headers)


def read_xml_layer(element: XmlElement, path: str, file_name: str) -> XmlLayer:
    """Reads a `<CustomLayer>`.

    Args:
      element: of that name.
      path: of the file, for errors.
      file_name: without its folder, for notes.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with line, element and reason.
    """
    return _LayerReader(path, file_name).read(element)


@dataclass(slots=True)
class _LayerReader:
    """One layer on its way, and the notes on it."""

    path: str
    file_name: str
    name: str = ""
    notes: list[str] = field(default_factory=list)

    def read(self, element: XmlElement) -> XmlLayer:
        self._note_unknown(element)
        self.name = self._text(element, "name", "the type of the ops that it implements")
        kind = element.attributes.get("type", "")
        if kind != TYPE:
            raise self._error(element, f"type '{kind}', expected '{TYPE}'")
        version = self._integer(element, "version")
        if version != _VERSION:
            shown = element.attributes.get("version")
            what = "no version" if shown is None else f"version '{shown}'"
            raise self._error(element, f"{what}, this reader knows {_VERSION}")
        kernel = self._only(element, "Kernel")
        buffers = self._only(element, "Buffers")
        entry = self._text(kernel, "entry", "the kernel's name")
        if not entry.isascii() or not entry.isidentifier():
            raise self._error(kernel, f"entry {entry!a} is not a name in C")
        sources = [
            (self._text(source, "filename", "the source's path"), source.line)
            for source in _children(kernel, "Source")
        ]
        if not sources:
            raise self._error(kernel, "no <Source> in it")
        layer = CustomLayer(
            self.name,
            self.file_name,
            (),
            entry=entry,
            arguments=self._arguments(buffers),
            defines=[self._define(define) for define in _children(kernel, "Define")],
            build_options=self._build_options(element),
            work_sizes=self._work_sizes(element),
            title=self.name,
            notes=self.notes,
        )
        return XmlLayer(layer, sources)

    def _define(self, element: XmlElement) -> Define:
        name = self._text(element, "name", "the macro's")
        if not _DEFINE_NAME.fullmatch(name) or name.rstrip().endswith("\\"):
            raise self._error(element, f"name {name!a} cannot stand behind a #define")
        kind = element.attributes.get("type", "")
        default = element.attributes.get("default")
        param = element.attributes.get("param")
        source = Literal(default or "") if param is None else FlexOption(param, default)
        # Other types add nothing to a value, and check nothing.
        return Define(name, source, kind if kind in ("int[]", "float[]") else "", is_plain=True)

    def _arguments(self, buffers: XmlElement) -> Sequence[Binding]:
        """Bindings by arg-index; a gap is input 0, as OpenVINO fills it."""
        bound: dict[int, Binding] = {}
        formats: dict[tuple[bool, int], Format] = {}
        for element in _children(buffers, "Tensor", "Data"):
            index = self._index(element, "arg-index", _MOST_ARGUMENTS - 1)
            binding: Binding
            if element.name == "Data":
                binding = DataBinding(self._text(element, "name", "a constant input's"))
            else:
                binding = self._tensor(element, formats)
            if index in bound:
                self._note(element, f"arg-index {index} is bound again: the last one counts")
            bound[index] = binding
        if not formats:
            raise self._error(buffers, "no <Tensor> for an input or output in it")
        first = TensorBinding(False, 0, formats.get((False, 0), Format.BFYX))
        gaps = [index for index in range(max(bound)) if index not in bound]
        if gaps:
            listed = ", ".join(map(str, gaps))
            self._note(buffers, f"nothing has arg-index {listed}: the kernel gets input 0 there")
        return [bound.get(index, first) for index in range(max(bound) + 1)]

    def _tensor(self, element: XmlElement, formats: dict[tuple[bool, int], Format]) -> Binding:
        kind = element.attributes.get("type", "")
        if kind not in ("input", "output", "internal"):
            what = f"type '{kind}'" if "type" in element.attributes else "no type"
            raise self._error(element, f"{what}, expected input, output or internal")
        port = self._index(element, "port-index", _MOST_PORTS)
        if kind == "internal":
            return InternalBinding(None, self._internal_size(element))
        name = element.attributes.get("format", "BFYX")
        if name not in _FORMATS:
            allowed = ", ".join(f.value for f in Format)
            hint = f"Known: {allowed}; or all of it in lower case."
            raise self._error(element, f"format '{name}' is unknown", hint)
        key = (kind == "output", port)
        taken = formats.setdefault(key, _FORMATS[name])
        if taken is not _FORMATS[name]:
            what = f"{kind} {port} is bound as {taken.value} before: that counts, and not {name}"
            self._note(element, what)
        return TensorBinding(*key, taken)

    def _internal_size(self, element: XmlElement) -> Formula:
        size = self._formula(element, "size", self._text(element, "size", "its elements"))
        if size.has_letters or not all(s.is_bfyx for s in size.tensor_sizes):
            raise self._error(
                element,
                f"size '{size.text}' has more than numbers, INPUT0_DIMS[0] and OUTPUT0_DIMS[0]",
            )
        return size

    def _build_options(self, layer: XmlElement) -> str:
        elements = _children(layer, "CompilerOptions")
        if len(elements) > 1:
            self._note(
                elements[1],
                f"{len(elements)} <CompilerOptions> are joined; OpenVINO takes the first",
            )
        options = [
            self._text(e, "options", "for the compiler", may_be_empty=True) for e in elements
        ]
        return " ".join(text for text in options if text)

    def _work_sizes(self, layer: XmlElement) -> WorkSizes:
        elements = _children(layer, "WorkSizes")
        if not elements:
            return WorkSizes()
        element = self._first(elements)
        sizes = self._formulas(element, "global")
        local = self._formulas(element, "local")
        if len(local) > max(len(sizes), 1):
            what = f"local has {len(local)} sizes for {max(len(sizes), 1)} global ones"
            raise self._error(element, what)
        if local:
            local += [Formula("1")] * (max(len(sizes), 1) - len(local))
        dim = element.attributes.get("dim", "output")
        found = _DIM.fullmatch(dim)
        if found is None:
            raise self._error(element, f"dim '{dim}', expected output, input or input,N")
        is_output = dim == "output"
        of = TensorBinding(is_output, int(found[1] or 0))
        return WorkSizes(sizes, local, of, counts_from_end=not is_output)

    def _formulas(self, element: XmlElement, name: str) -> list[Formula]:
        text = element.attributes.get(name, "").strip()
        if not text:
            return []
        rules = text.removesuffix(",").split(",")
        if len(rules) > 3:
            raise self._error(element, f"{name} has {len(rules)} sizes, at most 3 are")
        formulas = [self._formula(element, name, rule) for rule in rules]
        for formula in formulas:
            if formula.tensor_sizes:
                raise self._error(
                    element, f"{name}: rule '{formula.text}' has more than numbers and B, F, Y, X"
                )
        return formulas

    def _formula(self, element: XmlElement, name: str, text: str) -> Formula:
        try:
            return Formula(text)
        except LiteRtError as error:
            raise self._error(element, f"{name}: {error.what}", error.hint) from None

    def _index(self, element: XmlElement, name: str, most: int) -> int:
        """An index; -1 counts as absent."""
        index = self._integer(element, name)
        if index is None or index == -1:
            raise self._error(element, f"no {name}")
        if not 0 <= index <= most:
            raise self._error(element, f"{name} {index} is not from 0 to {most}")
        return index

    def _integer(self, element: XmlElement, name: str) -> int | None:
        text = element.attributes.get(name)
        if text is None:
            return None
        found = _INTEGER.fullmatch(text)
        if found is None:
            raise self._error(element, f"{name} '{text}' is not a whole number")
        return int(found[1])

    def _text(self, element: XmlElement, name: str, what: str, may_be_empty: bool = False) -> str:
        text = element.attributes.get(name)
        if text is None or not (text or may_be_empty):
            state = "is missing" if text is None else "is empty"
            raise self._error(element, f"attribute '{name}' ({what}) {state}")
        return text

    def _only(self, parent: XmlElement, name: str) -> XmlElement:
        elements = _children(parent, name)
        if not elements:
            raise self._error(parent, f"no <{name}> in it")
        return self._first(elements)

    def _first(self, elements: Sequence[XmlElement]) -> XmlElement:
        for other in elements[1:]:
            self._note(other, f"is ignored: the first one, in line {elements[0].line}, counts")
        return elements[0]

    def _note_unknown(self, element: XmlElement) -> None:
        """Notes what nobody reads, here and below."""
        known = _ATTRIBUTES[element.name]
        for name in element.attributes:
            if name not in known:
                self._note(element, f"attribute '{name}' is unknown, and ignored")
        for name in element.repeated:
            self._note(element, f"attribute '{name}' is given again: the first one counts")
        for child in element.children:
            if child.name in _CHILDREN.get(element.name, ()):
                self._note_unknown(child)
            else:
                self._note(child, f"is unknown in <{element.name}>, and ignored")

    def _note(self, element: XmlElement, what: str) -> None:
        self.notes.append(f"{self.file_name}, line {element.line}: <{element.name}> {what}.")

    def _error(self, element: XmlElement, what: str, hint: str = "") -> LiteRtError:
        where = f"{self.path}, line {element.line}"
        of_layer = f" of layer '{self.name}'" if self.name else ""
        return LiteRtError(
            Status.INVALID_ARGUMENT, f"<{element.name}>{of_layer}: {what}", where, hint
        )


def _children(element: XmlElement, *names: str) -> list[XmlElement]:
    return [child for child in element.children if child.name in names]
