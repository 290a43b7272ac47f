"""A `<CustomLayer>` of a custom layer configuration becomes a layer.

What OpenVINO takes is taken, but for its accidents; what it ignores is ignored with a note. Where it takes only
the first of several `CompilerOptions`, all are joined in order, as the format's description has them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from litert.core.formula import Formula
from vendor_reference.custom_layers.asset_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import (
    Binding,
    CustomLayer,
    Define,
    LayerFile,
    TensorBinding,
    WorkSizes,
)
from vendor_reference.custom_layers.kernel_source import decode_source, without_comments
from vendor_reference.custom_layers.value_sources import FlexOption, Literal
from vendor_reference.custom_layers.xml_buffers import read_buffers
from vendor_reference.custom_layers.xml_node import LayerPlace, XmlNode
from vendor_reference.custom_layers.xml_text import XmlElement

_TYPE = "SimpleGPU"
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
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DEFINE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[( ].*)?")
_DIM = re.compile(r"output|input(?:[, ][ ]*([0-9]{1,5}))?")


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
        names = _names_in([*sources, *headers])
        arguments = [_with_strides(argument, names) for argument in self.layer.arguments or ()]
        return replace(
            self.layer, op_name=op_name, sources=sources, headers=headers, arguments=arguments
        )


def read_xml_layer(element: XmlElement, path: str, file_name: str) -> XmlLayer:
    """Reads a `<CustomLayer>`.

    Args:
      element: of that name.
      path: of the file, for errors.
      file_name: without its folder, for notes.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with line, element and reason.
    """
    place = LayerPlace(path, file_name)
    node = XmlNode(element, place)
    node.note_unknown(_ATTRIBUTES, _CHILDREN)
    place.name = node.text("name", "the type of the ops that it implements")
    _check_kind(node)
    kernel, buffers = node.only("Kernel"), node.only("Buffers")
    entry = kernel.text("entry", "the kernel's name")
    if not entry.isascii() or not entry.isidentifier():
        raise kernel.error(f"entry {entry!a} is not a name in C")
    sources = [
        (source.text("filename", "the source's path"), source.element.line)
        for source in kernel.children("Source")
    ]
    if not sources:
        raise kernel.error("no <Source> in it")
    layer = CustomLayer(
        place.name,
        file_name,
        (),
        entry=entry,
        arguments=read_buffers(buffers),
        defines=[_define(define) for define in kernel.children("Define")],
        build_options=_build_options(node),
        work_sizes=_work_sizes(node.first("WorkSizes")),
        title=place.name,
        notes=place.notes,
    )
    return XmlLayer(layer, sources)


def _check_kind(node: XmlNode) -> None:
    kind = node.attributes.get("type", "")
    if kind != _TYPE:
        raise node.error(f"type '{kind}', expected '{_TYPE}'")
    if node.integer("version") != _VERSION:
        shown = node.attributes.get("version")
        what = "no version" if shown is None else f"version '{shown}'"
        raise node.error(f"{what}, this reader knows {_VERSION}")


def _define(node: XmlNode) -> Define:
    name = node.text("name", "the macro's")
    if not _DEFINE_NAME.fullmatch(name) or name.rstrip().endswith("\\"):
        raise node.error(f"name {name!a} cannot stand behind a #define")
    kind = node.attributes.get("type", "")
    default = node.attributes.get("default")
    param = node.attributes.get("param")
    source = Literal(default or "") if param is None else FlexOption(param, default)
    # Other types add nothing to a value, and check nothing.
    return Define(name, source, kind if kind in ("int[]", "float[]") else "", is_plain=True)


def _build_options(layer: XmlNode) -> str:
    nodes = layer.children("CompilerOptions")
    if len(nodes) > 1:
        nodes[1].note(f"{len(nodes)} <CompilerOptions> are joined; OpenVINO takes the first")
    options = [node.text("options", "for the compiler", may_be_empty=True) for node in nodes]
    return " ".join(text for text in options if text)


def _work_sizes(node: XmlNode | None) -> WorkSizes:
    if node is None:
        return WorkSizes()
    sizes, local = _formulas(node, "global"), _formulas(node, "local")
    dimensions = max(len(sizes), 1)
    if len(local) > dimensions:
        raise node.error(f"local has {len(local)} sizes for {dimensions} global ones")
    if local:
        local += [Formula("1")] * (dimensions - len(local))
    dim = node.attributes.get("dim", "output")
    found = _DIM.fullmatch(dim)
    if found is None:
        raise node.error(f"dim '{dim}', expected output, input or input,N")
    is_output = dim == "output"
    of = TensorBinding(is_output, int(found[1] or 0))
    return WorkSizes(sizes, local, of, counts_from_end=not is_output)


def _formulas(node: XmlNode, name: str) -> list[Formula]:
    text = node.attributes.get(name, "").strip()
    if not text:
        return []
    rules = text.removesuffix(",").split(",")
    if len(rules) > 3:
        raise node.error(f"{name} has {len(rules)} sizes, at most 3 are")
    formulas = [node.formula(name, rule) for rule in rules]
    for formula in formulas:
        if formula.tensor_sizes:
            raise node.error(f"{name}: rule '{formula.text}' has more than numbers and B, F, Y, X")
    return formulas


def _names_in(files: Sequence[LayerFile]) -> frozenset[str]:
    """The names that sources have outside of comments."""
    texts = (without_comments(decode_source(file.data, file.path)) for file in files)
    return frozenset(name for text in texts for name in _NAME.findall(text))


def _with_strides(binding: Binding, names: Collection[str]) -> Binding:
    """A tensor that the kernel reaches by pitches and offset may be a view of a larger one.

    OpenVINO hands views to any kernel; here one that does not look at them gets a tensor of its own.
    """
    if not isinstance(binding, TensorBinding):
        return binding
    tensor = f"{'OUTPUT' if binding.is_output else 'INPUT'}{binding.index}"
    is_strided = f"{tensor}_PITCHES" in names and f"{tensor}_OFFSET" in names
    return replace(binding, is_strided=is_strided)
