"""`.json`: descriptions of custom layers, whose OpenCL C sources are in other files of the same folder.

A file describes one layer, or several layers in the field `layers`. If a file has only one layer, this layer is
for the op that the user assigns the file to, or for the ops with the layer's name (default: the file's name
without suffix). If a file has several layers, each layer is for the ops with the layer's name.

The JSON Schema `custom_layer.schema.json` describes the format; a test keeps schema and reader consistent. Error
messages name the file, the element and the reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from litert.core.checked_json import JsonNode
from litert.core.codec import BOOLEAN, Codec, Renamed, enumeration, integer, named, record
from litert.core.counts import count_text
from litert.core.output_shape import read_formula, read_output_shape
from litert.core.status import Status
from vendor_reference.custom_layers.asset_reader import DescriptionReader, no_layer_named
from vendor_reference.custom_layers.cl_types import CL_TYPES, FIELD_TYPES, NUMBER_TYPES
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define, ShapeKernel
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    DataArgument,
    Format,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    LocalArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    Literal,
    QuantizationOf,
    Scalar,
    StructField,
    Value,
    ValueSource,
)
from vendor_reference.executable.build_options import find_option_mistake

_VERSION = 1

Fields = Mapping[str, JsonNode]

_LAYER_FIELDS = (
    "name", "description", "sources", "entry", "headers", "build_options", "arguments", "defines",
    "work_sizes", "max_num_shaves", "output_shapes", "shape_kernel",
)  # fmt: skip
"""The fields of a layer in a description; `sources` is required."""

_PORTS = ("input", "output")
_ARGUMENTS = (*_PORTS, "data", "shape", "scalar", "constant", "local", "internal")
_TENSOR_FIELDS = ("format", "type", "strided", "zero")
_SOURCES = ("value", "option", "field", "quantization")
_DEFINE_TYPES = ("int", "float", "int[]", "float[]")
_MOST_SHAVES = 1024
_MOST_ELEMENTS = 1 << 20

_PORT = integer(0, 65_535)
_NUMBER_TYPE = named(NUMBER_TYPES)


def _check_tensor(node: JsonNode, argument: TensorArgument) -> None:
    if argument.is_zeroed and not argument.is_output:
        raise node.at("zero").error("only an argument of kind 'output' may have this field")
    if argument.is_zeroed and argument.is_strided:
        raise node.at("zero").error(
            "'zero' cannot be combined with 'strided', because the memory around a view does not belong "
            "to the kernel"
        )


_TENSORS = {
    kind: record(
        TensorArgument,
        fixed={"is_output": kind == "output", "order": (), "panel": 0},
        index=Renamed(kind, _PORT),
        format=enumeration(Format),
        element_type=Renamed("type", named({t.name.lower(): t for t in CL_TYPES})),
        is_strided=Renamed("strided", BOOLEAN),
        is_zeroed=Renamed("zero", BOOLEAN),
        check=_check_tensor,
    )
    for kind in _PORTS
}
_ELEMENTS = Renamed("type", _NUMBER_TYPE)
_SIZE = Codec(lambda node: read_formula(node).text)
_LOCAL = record(LocalArgument, element_type=_ELEMENTS, size=_SIZE)
_INTERNAL = record(InternalArgument, element_type=_ELEMENTS, size=_SIZE)
_STRUCT_FIELD = record(
    StructField,
    element_type=Renamed("type", named(FIELD_TYPES)),
    offset=integer(0, 2**31 - 1),
    count=integer(1, _MOST_ELEMENTS),
)


class JsonReader(DescriptionReader):
    """Reads `.json`."""

    suffix = ".json"

    def read(self, op_name: str, files: AssetFiles, data: memoryview) -> CustomLayer:
        layers = _layers(files, data)
        read = {name: _read_layer(fields, op_name, files) for name, fields in layers.items()}
        if len(read) == 1:
            return next(iter(read.values()))
        if op_name not in read:
            raise no_layer_named(op_name, list(read), files.path)
        return read[op_name]

    def layer_names(self, files: AssetFiles, data: memoryview) -> Sequence[str]:
        return list(_layers(files, data))


def _layers(files: AssetFiles, data: memoryview) -> Mapping[str, Fields]:
    """Reads the fields of each layer, by name."""
    root = JsonNode.parse(data, files.path, Status.INVALID_ARGUMENT)
    fields = root.fields(("version",), ("$schema", "layers", *_LAYER_FIELDS))
    version = fields["version"].integer(0, 2**31 - 1)
    if version != _VERSION:
        raise fields["version"].error(
            f"version {version} is not supported; the only supported version is {_VERSION}"
        )
    for name in ("$schema", "description"):
        if name in fields:
            fields[name].text()
    if "layers" not in fields:
        if "sources" not in fields:
            raise root.error(
                "field 'sources' is missing; a file with several layers has the field 'layers' instead"
            )
        return {_layer_name(fields) or os.path.splitext(files.file_name)[0]: fields}
    return _several(fields)


def _several(fields: Fields) -> Mapping[str, Fields]:
    for name in _LAYER_FIELDS:
        if name in fields and name != "description":
            raise fields[name].error(
                "this field is not allowed beside 'layers', where each layer has its own fields"
            )
    layers: dict[str, Fields] = {}
    for node in fields["layers"].items(1):
        layer = node.fields(("name", "sources"), _LAYER_FIELDS)
        name = _layer_name(layer)
        if name in layers:
            raise layer["name"].error(f"two layers have the name '{name}'")
        layers[name] = layer
    return layers


def _read_layer(fields: Fields, op_name: str, files: AssetFiles) -> CustomLayer:
    """Reads a layer with its sources and their includes."""
    if "description" in fields:
        fields["description"].text()
    sources = [files.read(n.text(), n.path) for n in fields["sources"].items(1)]
    named = [files.read(n.text(), n.path) for n in _items(fields, "headers")]
    shape_kernel = None
    if node := fields.get("shape_kernel"):
        parts = node.fields(("entry",), ("sources",))
        own = [files.read(n.text(), n.path) for n in _items(parts, "sources", 1)]
        shape_kernel = ShapeKernel(_identifier(parts["entry"]), own or sources)
        if "output_shapes" in fields:
            raise node.error("'shape_kernel' and 'output_shapes' cannot be used together")
    more = shape_kernel.sources if shape_kernel else ()
    included = files.headers([*sources, *more, *named])
    shaves = fields.get("max_num_shaves")
    shapes = fields.get("output_shapes")
    kernel = KernelSpec(
        _layer_name(fields),
        tuple(_argument(n) for n in _items(fields, "arguments", 1)),
        where=files.file_name,
        entry=_identifier(fields["entry"]) if "entry" in fields else "",
        build_options=_build_options(fields["build_options"]) if "build_options" in fields else "",
        max_num_shaves=shaves.integer(1, _MOST_SHAVES) if shaves else 0,
    )
    return CustomLayer(
        op_name,
        _with_work_sizes(kernel, fields["work_sizes"]) if "work_sizes" in fields else kernel,
        sources,
        headers=[*included, *named],
        defines=_defines(_items(fields, "defines")),
        defines_quantization=True,
        output_shapes=[read_output_shape(n) for n in shapes.items(1)] if shapes else None,
        shape_kernel=shape_kernel,
    )


def _layer_name(fields: Fields) -> str:
    """Reads a layer's name; "" if it has none."""
    return _name(fields["name"]) if "name" in fields else ""


def _items(fields: Fields, name: str, least: int = 0) -> Sequence[JsonNode]:
    return fields[name].items(least) if name in fields else ()


def _argument(node: JsonNode) -> KernelArgument:
    fields = node.fields((), (*_ARGUMENTS, *_TENSOR_FIELDS))
    kind = _only(node, fields, _ARGUMENTS)
    if kind in _TENSORS:
        return _TENSORS[kind].read(node)
    for name in _TENSOR_FIELDS:
        if name in fields:
            raise fields[name].error(
                "only an argument of kind 'input' or 'output' may have this field"
            )
    value = fields[kind]
    if kind == "local":
        return _LOCAL.read(value)
    if kind == "internal":
        return _INTERNAL.read(value)
    if kind == "data":
        return DataArgument(_name(value))
    if kind == "shape":
        return ShapeArgument(*_port(value, value.fields((), _PORTS)))
    parts = value.fields(("type",), (*_SOURCES, "default"))
    make = ScalarArgument if kind == "scalar" else ConstantArgument
    return make(_NUMBER_TYPE.read(parts["type"]), _value_source(value, parts))


def _port(node: JsonNode, fields: Fields) -> tuple[bool, int]:
    """Reads whether a port is an output, and its index."""
    kind = _only(node, fields, _PORTS)
    return kind == "output", _PORT.read(fields[kind])


def _defines(nodes: Sequence[JsonNode]) -> Sequence[Define]:
    defines: dict[str, Define] = {}
    for node in nodes:
        fields = node.fields(("name",), (*_SOURCES, "default", "type"))
        name = _identifier(fields["name"])
        if name in defines:
            raise fields["name"].error(f"macro '{name}' is defined twice")
        define_type = fields["type"].text(_DEFINE_TYPES) if "type" in fields else ""
        defines[name] = Define(name, _value_source(node, fields), define_type)
    return list(defines.values())


def _value_source(node: JsonNode, fields: Fields) -> ValueSource:
    kind = _only(node, fields, _SOURCES)
    if "default" in fields and kind != "option":
        raise fields["default"].error("field 'default' is allowed only together with 'option'")
    value = fields[kind]
    if kind == "value":
        return Literal(_value(value))
    if kind == "option":
        default = _value(fields["default"]) if "default" in fields else None
        return FlexOption(value.text(), default)
    if kind == "field":
        return _STRUCT_FIELD.read(value)
    parts = value.fields(("parameter",), _PORTS)
    return QuantizationOf(parts["parameter"].text(("scale", "zero_point")), *_port(value, parts))


def _value(node: JsonNode) -> Value:
    if isinstance(node.value, list):
        return tuple(_scalar(item) for item in node.items(1, _MOST_ELEMENTS))
    return _scalar(node)


def _scalar(node: JsonNode) -> Scalar:
    read = _SCALARS.get(type(node.value))
    if read is None:
        raise node.error("the value must be a number, true, false, a text, or an array of these")
    return read(node)


def _with_work_sizes(kernel: KernelSpec, node: JsonNode) -> KernelSpec:
    fields = node.fields((), ("global", "local", "of"))
    sizes, local = (
        tuple(read_formula(n).text for n in fields[name].items(1, 3)) if name in fields else ()
        for name in ("global", "local")
    )
    if local and len(local) != max(len(sizes), 1):
        raise fields["local"].error(
            f"the local size has {count_text(len(local), 'dimension')}, but the global size has "
            f"{max(len(sizes), 1)}"
        )
    kernel = replace(kernel, global_size=sizes, local_size=local)
    if of := fields.get("of"):
        kernel = replace(kernel, sizes_of=TensorArgument(*_port(of, of.fields((), _PORTS))))
    return kernel


def _identifier(node: JsonNode) -> str:
    name = node.text()
    if not name.isascii() or not name.isidentifier():
        raise node.error(f"{name!r} is not a valid C identifier")
    return name


def _name(node: JsonNode) -> str:
    name = _line(node)
    if not name:
        raise node.error("the name is empty")
    return name


def _line(node: JsonNode) -> str:
    text = node.text()
    if "\n" in text or "\r" in text:
        raise node.error("the text must not have more than one line")
    return text


def _build_options(node: JsonNode) -> str:
    options = _line(node)
    if mistake := find_option_mistake(options):
        raise node.error(mistake)
    return options


_SCALARS: Mapping[type, Callable[[JsonNode], Scalar]] = {
    bool: JsonNode.boolean,
    int: integer(-(2**63), 2**64 - 1).read,
    float: JsonNode.number,
    str: _line,
}


def _only(node: JsonNode, fields: Fields, names: Sequence[str]) -> str:
    """Finds the only one of `names` that is present."""
    given = [name for name in names if name in fields]
    if len(given) != 1:
        listed = ", ".join(names)
        raise node.error(
            f"exactly one of the fields {listed} is required, but "
            + (f"{' and '.join(given)} are given" if given else "none of them is given")
        )
    return given[0]


READER = JsonReader()
