"""Reads a layer for OpenVINO's VPU plugin from a custom layer configuration: `type="MVCL"`, version 1.

Such a layer binds the kernel's parameters by name, so this module reads the parameter names from the kernel's
source. In formulas, B, F, Y and X are the sizes of the tensor that `dim` or `port-index` selects, as in the
defines. Published MVCL layers refer to binaries for SHAVE processors; replace these binaries by their OpenCL C
source.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from litert.core.counts import names_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.suggestion import did_you_mean
from vendor_reference.custom_layers.companion_files import AssetFiles
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.kernel_source import (
    Parameter,
    decode_source,
    kernel_names,
    parameters_in_text,
    without_comments,
)
from vendor_reference.custom_layers.kernel_spec import (
    DataArgument,
    Format,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    LocalArgument,
    ScalarArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    Literal,
    SizeFormula,
    ValueSource,
)
from vendor_reference.custom_layers.xml_element import XmlElement

TYPE = "MVCL"

_ATTRIBUTES: Mapping[str, Collection[str]] = {
    "CustomLayer": ("name", "type", "version", "max-shaves", "stage"),
    "Kernel": ("entry", "max-shaves", "stage"),
    "Source": ("filename",),
    "Parameters": (),
    "Tensor": ("arg-name", "type", "port-index", "format", "source", "dim", "size"),
    "Data": ("arg-name", "type", "source", "format", "dim", "size"),
    "Scalar": ("arg-name", "type", "port-index", "source"),
    "WorkSizes": ("global", "local", "dim"),
    "Where": (),
}
_CHILDREN: Mapping[str, Collection[str]] = {
    "CustomLayer": ("Kernel", "Parameters", "WorkSizes", "Where"),
    "Kernel": ("Source", "Parameters", "WorkSizes"),
    "Parameters": ("Tensor", "Data", "Scalar"),
}
_FORMATS = {
    "BFYX": Format.BFYX, "FYX": Format.BFYX, "BF": Format.BFYX, "BFXY": Format.BFYX, "BYXF": Format.BYXF,
    "YXF": Format.BYXF, "ANY": Format.ANY,
}  # fmt: skip
_TENSOR_TYPES = ("input", "output", "output_buffer", "input_buffer", "data")
_NUMBERS = {"int": ElementType.INT32, "float": ElementType.FLOAT32}
_MOST_PORTS = 65_535
_MOST_SHAVES = 1024
_LETTER = re.compile(r"\b[BFYX]\b", re.IGNORECASE)
_DIM = re.compile(r"(input|output)(?:[ ]*,[ ]*([0-9]{1,5}))?", re.IGNORECASE)
_TENSOR_SIZE = re.compile(r"([IO])([0-9]{0,5})\.([BFYX])", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DMA = re.compile(r"__dma_(?:preload|postwrite)_\w+|WorkGroupDma\w+", re.ASCII)


def read_mvcl_layer(element: XmlElement, name: str, files: AssetFiles) -> CustomLayer:
    """Reads a `<CustomLayer>` of type MVCL with its sources.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with the line, if the layer is invalid or uses features that only a VPU has.
        NOT_FOUND, if a source file is missing.
    """
    element.note_unknown(_ATTRIBUTES, _CHILDREN)
    _check_whole(element)
    kernel = element.only("Kernel")
    entry = kernel.text("entry", "the kernel's name")
    sources = [_source(source, files) for source in kernel.named("Source")]
    if not sources:
        raise kernel.error("element <Source> is missing")
    declared = _declared(kernel, entry, [*files.headers(sources), *sources])
    work_sizes = _inside(element, kernel, "WorkSizes")
    tensor = _dim(work_sizes)
    spec = KernelSpec(
        name,
        _arguments(_inside(element, kernel, "Parameters"), entry, declared),
        where=files.file_name,
        entry=entry,
        global_size=_sizes(work_sizes, "global", tensor),
        local_size=_sizes(work_sizes, "local", tensor),
        max_num_shaves=_max_shaves(element) or _max_shaves(kernel),
    )
    return CustomLayer(name, spec, sources)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """An input or output, whose sizes formulas use."""

    is_output: bool
    index: int

    def size(self, letter: str) -> str:
        kind = "OUTPUT" if self.is_output else "INPUT"
        return f"{kind}{self.index}_DIMS[{'BFYX'.index(letter.upper())}]"


def _check_whole(element: XmlElement) -> None:
    """Refuses stages of a layer, and layers for some of the ops of a name."""
    for node in (element, *element.named("Kernel")):
        if (stage := node.attributes.get("stage", "0").strip()) != "0":
            raise _stages(node, f"the layer has stage '{stage}'")
    if kernels := element.named("Kernel")[1:]:
        raise _stages(kernels[0], "the layer has a second kernel")
    for where in element.named("Where"):
        raise where.error(
            "this element limits the layer to some of the ops with its name, which is not supported",
            "Remove <Where>, so that the layer implements all these ops. Ops that need another layer must have "
            "another name in the model.",
        )


def _stages(node: XmlElement, what: str) -> LiteRtError:
    hint = "Write one kernel for the whole layer, or one op for each stage."
    return node.error(
        f"{what}, but the reference vendor supports only layers with one kernel and without stages",
        hint,
    )


def _inside(element: XmlElement, kernel: XmlElement, name: str) -> XmlElement:
    """Finds the only child of a name in the layer or, as in later versions of OpenVINO, in the kernel."""
    return kernel.find_only(name) or element.only(name)


def _source(node: XmlElement, files: AssetFiles) -> LayerFile:
    name = node.text("filename", "the source's path")
    hint = "Specify the OpenCL C source from which the binary was compiled."
    if name.lower().endswith((".bin", ".elf", ".o")):
        raise node.error(
            f"'{name}' is a binary for SHAVE processors, which the reference vendor cannot run",
            hint,
        )
    file = files.read(name, f"line {node.line}, <Source>")
    text = without_comments(decode_source(file.data, file.path))
    if found := _DMA.search(text):
        raise node.error(
            f"source file {file.path} uses {found[0]}, but only VPUs support manual DMA",
            "Copy to local memory with async_work_group_copy in the kernel.",
        )
    return file


def _declared(kernel: XmlElement, entry: str, files: Sequence[LayerFile]) -> Sequence[Parameter]:
    """Finds the parameters that the kernel declares, with their names."""
    texts = [decode_source(file.data, file.path) for file in files]
    found = parameters_in_text("", texts, entry)
    if found is None:
        has = kernel_names(texts)
        if entry in has:
            raise kernel.error(f"the sources contain different declarations of kernel '{entry}'")
        hint = did_you_mean(entry, has, f"{names_text('kernel', has)}.")
        raise kernel.error(f"the sources contain no kernel '{entry}'", hint)
    for index, parameter in enumerate(found):
        if not parameter.name:
            raise kernel.error(f"parameter {index} of kernel '{entry}' has no name in the source")
    return found


def _arguments(
    parameters: XmlElement, entry: str, declared: Sequence[Parameter]
) -> tuple[KernelArgument, ...]:
    """Binds each parameter, in the kernel's order."""
    by_name = {parameter.name: parameter for parameter in declared}
    bound: dict[str, KernelArgument] = {}
    for node in parameters.named("Tensor", "Data", "Scalar"):
        name = node.text("arg-name", "the kernel's parameter")
        if name not in by_name:
            raise node.error(
                f"attribute 'arg-name' is '{name}', but kernel '{entry}' has no such parameter",
                did_you_mean(name, by_name) or f"{names_text('parameter', list(by_name))}.",
            )
        if name in bound:
            node.note(f"several elements are for parameter '{name}', and the last of them is used")
        bound[name] = _argument(node, by_name[name])
    for name in by_name:
        if name not in bound:
            raise parameters.error(
                f"an element for parameter '{name}' of kernel '{entry}' is missing",
                f"""Add a <Tensor>, <Data> or <Scalar> with arg-name="{name}".""",
            )
    return tuple(bound[name] for name in by_name)


def _argument(node: XmlElement, parameter: Parameter) -> KernelArgument:
    if node.name == "Scalar":
        return _scalar(node)
    kind = node.attributes.get("type", "").lower()
    allowed = ("data", "local_data") if node.name == "Data" else _TENSOR_TYPES
    if kind not in allowed:
        raise _bad_type(node, kind, f"one of {', '.join(allowed)}")
    if kind == "data":
        return DataArgument(node.text("source", "a constant input's name"), is_flat=True)
    if kind == "local_data":
        return LocalArgument(ElementType.UINT8, _bytes(node))
    if kind == "output_buffer":
        return InternalArgument(ElementType.UINT8, _bytes(node))
    if kind == "input_buffer":
        raise node.error(
            "type 'input_buffer' is the memory of another stage, but the reference vendor supports only layers "
            "with one kernel and without stages"
        )
    name = node.attributes.get("format", "BFYX").upper()
    if name not in _FORMATS:
        raise node.error(
            f"attribute 'format' is '{name}', which is unknown",
            f"The formats are {', '.join(_FORMATS)}.",
        )
    # The VPU's tensors are halves: a kernel that declares halves gets them, whatever the model's type.
    element_type = ElementType.FLOAT16 if parameter.type.startswith("half") else None
    port = node.index("port-index", _MOST_PORTS)
    return TensorArgument(kind == "output", port, _FORMATS[name], element_type)


def _scalar(node: XmlElement) -> ScalarArgument:
    kind = node.attributes.get("type", "").lower()
    if kind not in _NUMBERS:
        raise _bad_type(node, kind, "int or float")
    text = node.text("source", "a parameter, a size such as I.X, or a number").strip()
    port = node.integer("port-index")
    if port is not None and not -1 <= port <= _MOST_PORTS:
        raise node.error(
            f"attribute 'port-index' is {port}, which is not in the range 0 to {_MOST_PORTS}"
        )
    place = max(port or 0, 0)
    source: ValueSource
    if found := _TENSOR_SIZE.fullmatch(text):
        tensor = _Tensor(found[1].upper() == "O", int(found[2] or place))
        source = SizeFormula(tensor.size(found[3]))
    elif _NUMBER.fullmatch(text):
        source = Literal(float(text) if kind == "float" else int(float(text)))
    else:
        source = FlexOption(text, element=place)
    return ScalarArgument(_NUMBERS[kind], source)


def _bytes(node: XmlElement) -> str:
    """Reads a memory size, a formula over the tensor that `dim` names."""
    return _formula(node, "size", node.text("size", "the number of bytes"), _dim(node))


def _dim(node: XmlElement) -> _Tensor:
    text = node.attributes.get("dim", "output,0").strip()
    found = _DIM.fullmatch(text)
    if found is None:
        raise node.error(f"attribute 'dim' is '{text}', but must be input,N or output,N")
    return _Tensor(found[1].lower() == "output", int(found[2] or 0))


def _sizes(node: XmlElement, name: str, tensor: _Tensor) -> tuple[str, ...]:
    rules = node.text(name, "up to three sizes").split(",")
    if len(rules) > 3:
        raise node.error(f"attribute '{name}' has {len(rules)} sizes, but may have at most 3")
    return tuple(_formula(node, name, rule, tensor) for rule in rules)


def _formula(node: XmlElement, name: str, text: str, tensor: _Tensor) -> str:
    if node.formula(name, text).tensor_sizes:
        raise node.error(
            f"attribute '{name}' has the formula '{text}', but may contain only numbers and B, F, Y, X"
        )
    return _LETTER.sub(lambda letter: tensor.size(letter[0]), text)


def _max_shaves(node: XmlElement) -> int:
    number = node.integer("max-shaves") or 0
    if not 0 <= number <= _MOST_SHAVES:
        raise node.error(
            f"attribute 'max-shaves' is {number}, which is not in the range 0 to {_MOST_SHAVES}"
        )
    return number


def _bad_type(node: XmlElement, kind: str, allowed: str) -> LiteRtError:
    found = f"is '{kind}'" if kind else "is missing"
    return node.error(f"attribute 'type' {found}, but must be {allowed}")
