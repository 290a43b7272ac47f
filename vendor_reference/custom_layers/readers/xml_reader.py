"""`.xml`: a custom layer configuration of OpenVINO's Inference Engine, with source files in the same folder.

Layers are written for OpenVINO's GPU plugin (`SimpleGPU`) or VPU plugin (`MVCL`, see `mvcl_layer.py`).

If a file has only one layer, this layer implements the op that the user assigns, whatever the layer's name. If a
file has several layers, the layer with the op's name implements the op; the last of several layers with the same
name is used.

The reader accepts and ignores the same elements as OpenVINO, and reports ignored elements in notes. If an element
is repeated, OpenVINO uses only the first element. This reader instead joins repeated `CompilerOptions` in order,
and rejects a repeated `Kernel`, `Buffers` or `WorkSizes`, as the format's description requires.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from litert.core.errors import LiteRtError
from litert.core.formula import Formula
from litert.core.status import Status
from vendor_reference.custom_layers import mvcl_layer
from vendor_reference.custom_layers.asset_reader import DescriptionReader, no_layer_named
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define, LayerFile
from vendor_reference.custom_layers.kernel_source import decode_source, without_comments
from vendor_reference.custom_layers.kernel_spec import (
    DataArgument,
    Format,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import FlexOption, Literal
from vendor_reference.custom_layers.xml_element import XmlElement
from vendor_reference.custom_layers.xml_text import parse_xml
from vendor_reference.executable.build_options import find_option_mistake

_ELEMENT = "CustomLayer"
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
_FORMATS = {name: f for f in Format for name in (f.value, f.value.lower())}
_MOST_ARGUMENTS = 256
_MOST_PORTS = 65_535
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DEFINE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[( ].*)?")
_DIM = re.compile(r"output|input(?:[, ][ ]*([0-9]{1,5}))?")


class XmlReader(DescriptionReader):
    """Reads `.xml`."""

    suffix = ".xml"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        layers = _read_layers(files, data)
        found = layers.get(op_name)
        if found is None and len(layers) == 1:
            (found,) = layers.values()
        if found is None:
            raise no_layer_named(op_name, list(layers), files.path)
        return _with_headers(*found, op_name, files)

    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        return list(_read_layers(files, data))


def _read_layers(
    files: AssetFiles, data: memoryview
) -> Mapping[str, tuple[CustomLayer, XmlElement]]:
    """Reads all layers of a file by name, without includes; one bad layer fails the file."""
    layers: dict[str, tuple[CustomLayer, XmlElement]] = {}
    again: dict[str, list[str]] = {}
    for element in parse_xml(data, files.path):
        if element.name != _ELEMENT:
            inside = any(child.name == _ELEMENT for child in element.children)
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the top-level element is <{element.name}>, but must be <{_ELEMENT}>",
                f"{files.path}, line {element.line}",
                f"Remove <{element.name}>: layers must be top-level elements." if inside else "",
            )
        layer = _read_layer(element, files)
        name = layer.kernel.title
        if name in layers:
            what = f"layer '{name}' is described several times, and the last description is used"
            again.setdefault(name, []).append(f"line {element.line}: {what}.")
            element.layer.notes += again[name]
        layers[name] = layer, element
    if not layers:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the file contains no <{_ELEMENT}>, so it does not describe a layer",
            files.path,
        )
    return layers


def _with_headers(
    layer: CustomLayer, element: XmlElement, op_name: str, files: AssetFiles
) -> CustomLayer:
    """Reads the layer for an op, with its includes."""
    headers = files.headers(layer.sources)
    names = _names_in([*layer.sources, *headers])
    arguments = tuple(_with_strides(argument, names) for argument in layer.kernel.arguments)
    return replace(
        layer,
        op_name=op_name,
        kernel=replace(layer.kernel, arguments=arguments),
        headers=headers,
        notes=[f"{files.file_name}, {note}" for note in element.layer.notes],
    )


def _read_layer(element: XmlElement, files: AssetFiles) -> CustomLayer:
    """Reads a `<CustomLayer>` with its sources, without includes."""
    name = element.text("name", "the type of the ops that the layer implements")
    if _read_kind(element) == mvcl_layer.TYPE:
        return mvcl_layer.read_mvcl_layer(element, name, files)
    element.note_unknown(_ATTRIBUTES, _CHILDREN)
    kernel, buffers = element.only("Kernel"), element.only("Buffers")
    entry = kernel.text("entry", "the kernel's name")
    if not entry.isascii() or not entry.isidentifier():
        raise kernel.error(f"attribute 'entry' is {entry!a}, which is not a valid C identifier")
    sources = [
        files.read(source.text("filename", "the source's path"), f"line {source.line}, <Source>")
        for source in kernel.named("Source")
    ]
    if not sources:
        raise kernel.error("element <Source> is missing")
    arguments = _arguments(buffers)
    defines = [_define(define) for define in kernel.named("Define")]
    spec = KernelSpec(
        name, arguments, where=files.file_name, entry=entry, build_options=_build_options(element)
    )
    spec = _with_work_sizes(spec, element.find_only("WorkSizes"))
    return CustomLayer(name, spec, sources, defines=defines)


def _arguments(buffers: XmlElement) -> tuple[KernelArgument, ...]:
    """Sorts the arguments by `arg-index`; like OpenVINO, it fills gaps with input 0."""
    bound: dict[int, KernelArgument] = {}
    formats: dict[tuple[bool, int], Format] = {}
    for node in buffers.named("Tensor", "Data"):
        index = node.index("arg-index", _MOST_ARGUMENTS - 1)
        binding: KernelArgument
        if node.name == "Data":
            name = node.text("name", "the name of a constant input")
            binding = DataArgument(name, is_flat=True)
        else:
            binding = _tensor(node, formats)
        if index in bound:
            node.note(f"several elements have arg-index {index}, and the last of them is used")
        bound[index] = binding
    if not formats:
        raise buffers.error("a <Tensor> for an input or output is missing")
    _check_outputs(buffers, bound)
    _renumber_outputs(buffers, bound)
    first = TensorArgument(False, 0, formats.get((False, 0), Format.BFYX))
    gaps = [index for index in range(max(bound)) if index not in bound]
    if gaps:
        listed = ", ".join(map(str, gaps))
        buffers.note(
            f"no element has arg-index {listed}, so the kernel gets input 0 as this argument"
        )
    return tuple(bound.get(index, first) for index in range(max(bound) + 1))


def _check_outputs(buffers: XmlElement, bound: Mapping[int, KernelArgument]) -> None:
    """Checks that an output has one argument, as in OpenVINO; an input may have several."""
    places: dict[int, int] = {}
    for place, binding in sorted(bound.items()):
        if not isinstance(binding, TensorArgument) or not binding.is_output:
            continue
        first = places.setdefault(binding.index, place)
        if first != place:
            raise buffers.error(
                f"two elements are for output {binding.index}, with arg-index {first} and with arg-index {place}",
                "Remove one of them: the kernel can read and write an output through the same argument.",
            )


def _tensor(node: XmlElement, formats: dict[tuple[bool, int], Format]) -> KernelArgument:
    """Reads a tensor or internal memory; `formats` holds the first format of each earlier port."""
    kind = node.attributes.get("type", "")
    if kind not in ("input", "output", "internal"):
        what = f"is '{kind}'" if "type" in node.attributes else "is missing"
        raise node.error(f"attribute 'type' {what}, but must be input, output or internal")
    port = node.index("port-index", _MOST_PORTS)
    if kind == "internal":
        return InternalArgument(None, _internal_size(node).text)
    name = node.attributes.get("format", "BFYX")
    if name not in _FORMATS:
        allowed = ", ".join(f.value for f in Format)
        raise node.error(
            f"attribute 'format' is '{name}', which is unknown",
            f"The formats are {allowed}, in upper or lower case.",
        )
    key = (kind == "output", port)
    taken = formats.setdefault(key, _FORMATS[name])
    if taken is not _FORMATS[name]:
        node.note(
            f"an earlier element for {kind} {port} has format {taken.value}, which is used in place of {name}"
        )
    return TensorArgument(*key, taken)


def _internal_size(node: XmlElement) -> Formula:
    size = node.formula("size", node.text("size", "the number of elements"))
    if size.has_letters or not all(s.is_bfyx for s in size.tensor_sizes):
        raise node.error(
            f"attribute 'size' is '{size.text}', but may contain only numbers and sizes such as INPUT0_DIMS[0] "
            "and OUTPUT0_DIMS[0]"
        )
    return size


def _renumber_outputs(buffers: XmlElement, bound: dict[int, KernelArgument]) -> None:
    """Renumbers outputs from 0 if their numbers continue those of the inputs, like ports of an IR."""
    tensors = {i: b for i, b in bound.items() if isinstance(b, TensorArgument)}
    first = len({b.index for b in tensors.values() if not b.is_output})
    outputs = sorted({b.index for b in tensors.values() if b.is_output})
    if not first or outputs != list(range(first, first + len(outputs))) or not outputs:
        return
    buffers.note(
        f"the port-index of the outputs counts from {first}, as in an OpenVINO IR, so port-index {first} is "
        "output 0"
    )
    for index, binding in tensors.items():
        if binding.is_output:
            bound[index] = replace(binding, index=binding.index - first)


def _read_kind(node: XmlElement) -> str:
    """Checks the type and version of a layer."""
    kind = node.attributes.get("type", "")
    if kind not in (_TYPE, mvcl_layer.TYPE):
        what = f"is '{kind}'" if "type" in node.attributes else "is missing"
        raise node.error(f"attribute 'type' {what}, but must be '{_TYPE}' or '{mvcl_layer.TYPE}'")
    if node.integer("version") != _VERSION:
        shown = node.attributes.get("version")
        what = "is missing" if shown is None else f"is '{shown}'"
        raise node.error(f"attribute 'version' {what}, but must be {_VERSION}")
    return kind


def _define(node: XmlElement) -> Define:
    name = node.text("name", "the macro's name").lstrip()
    if not _DEFINE_NAME.fullmatch(name) or name.rstrip().endswith("\\"):
        raise node.error(f"attribute 'name' is {name!a}, which is not a valid name for a #define")
    kind = node.attributes.get("type", "")
    default = node.attributes.get("default")
    if default and default.rstrip().endswith("\\"):
        node.note(
            "the backslash at the end of the default value is removed, because it would append the next line"
        )
    param = node.attributes.get("param")
    source = Literal(default or "") if param is None else FlexOption(param, default)
    # Other types neither change nor check a value.
    return Define(name, source, kind if kind in ("int[]", "float[]") else "", is_plain=True)


def _build_options(layer: XmlElement) -> str:
    nodes = layer.named("CompilerOptions")
    if len(nodes) > 1:
        nodes[1].note(
            f"the options of all {len(nodes)} <CompilerOptions> are used; OpenVINO uses only the first of them"
        )
    options = [
        node.text("options", "options for the compiler", may_be_empty=True) for node in nodes
    ]
    for node, text in zip(nodes, options, strict=True):
        if mistake := find_option_mistake(text):
            raise node.error(mistake)
    return " ".join(text for text in options if text)


def _with_work_sizes(kernel: KernelSpec, node: XmlElement | None) -> KernelSpec:
    if node is None:
        return kernel
    sizes, local = _formulas(node, "global"), _formulas(node, "local")
    if len(local) > max(len(sizes), 1):
        node.note(
            f"attribute 'local' has {len(local)} sizes, but 'global' has {max(len(sizes), 1)}; the surplus local "
            "sizes are only in the macro LOCAL_WORKSIZE"
        )
    dim = node.attributes.get("dim", "output")
    found = _DIM.fullmatch(dim)
    if found is None:
        raise node.error(f"attribute 'dim' is '{dim}', but must be output, input or input,N")
    is_output = dim == "output"
    of = TensorArgument(is_output, int(found[1] or 0))
    return replace(
        kernel,
        global_size=tuple(sizes),
        local_size=tuple(local),
        sizes_of=of,
        counts_from_end=not is_output,
    )


def _formulas(node: XmlElement, name: str) -> list[str]:
    text = node.attributes.get(name, "").strip()
    if not text:
        return []
    rules = text.removesuffix(",").split(",")
    if len(rules) > 3:
        raise node.error(f"attribute '{name}' has {len(rules)} sizes, but may have at most 3")
    formulas = [node.formula(name, rule) for rule in rules]
    for formula in formulas:
        if formula.tensor_sizes:
            raise node.error(
                f"attribute '{name}' has the formula '{formula.text}', but may contain only numbers and B, F, Y, X"
            )
    return [formula.text for formula in formulas]


def _names_in(files: Sequence[LayerFile]) -> frozenset[str]:
    """Collects the names in sources, outside comments."""
    texts = (without_comments(decode_source(file.data, file.path)) for file in files)
    return frozenset(name for text in texts for name in _NAME.findall(text))


def _with_strides(binding: KernelArgument, names: Collection[str]) -> KernelArgument:
    """A tensor whose pitches and offset the kernel uses may be a view of a larger tensor.

    OpenVINO passes views to any kernel; here, a kernel that ignores pitches gets a dense tensor.
    """
    if not isinstance(binding, TensorArgument):
        return binding
    tensor = f"{'OUTPUT' if binding.is_output else 'INPUT'}{binding.index}"
    is_strided = f"{tensor}_PITCHES" in names and f"{tensor}_OFFSET" in names
    return replace(binding, is_strided=is_strided)


READER = XmlReader()
