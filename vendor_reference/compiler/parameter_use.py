"""Finds an op's options and inputs that its layer never reads, and a layer's defines that no source file uses.

Unused options, inputs and defines are legal, but often mistakes, so the reports of `apply_plugin` and `litert-npu
layer check` have notes about them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from litert.core.suggestion import closest_name
from litert.model.graph import Op
from vendor_reference.compiler.overriding import value_sources
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.custom_layers.kernel_source import decode_source, without_comments
from vendor_reference.custom_layers.kernel_spec import (
    DataArgument,
    Format,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    Literal,
    OpValues,
    find_data_input,
)

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PARAMETER = "PARAM_"
_RANK_OF_IMAGES = 4


def find_parameter_notes(ops: Iterable[Op], layers: Mapping[str, CustomLayer]) -> list[str]:
    """Returns sentences about mismatches between ops and their layers: in options, inputs, formats and defines.

    Each sentence occurs once.
    """
    notes: dict[str, None] = {}
    used: dict[str, frozenset[str]] = {}
    seen: set[tuple[str, bytes]] = set()
    for op in ops:
        layer = layers.get(op.name)
        if layer is None or layer.type is LayerType.CPP:
            continue
        if op.name not in used:
            used[op.name] = frozenset(_names_in_sources(layer))
            notes.update(dict.fromkeys(_unused_defines(layer, used[op.name])))
        key = (op.name, bytes(op.custom_options or b""))
        if key not in seen:
            seen.add(key)
            notes.update(dict.fromkeys(_option_notes(layer, op, used[op.name])))
        notes.update(dict.fromkeys(_unbound_inputs(layer, op)))
        notes.update(dict.fromkeys(_any_formats(layer, op, used[op.name])))
    return list(notes)


def _names_in_sources(layer: CustomLayer) -> Iterator[str]:
    """Yields all names in sources outside comments, and all names in the values of defines."""
    for file in layer.files():
        yield from _NAME.findall(without_comments(decode_source(file.data, file.path)))
    for define in layer.defines:
        if isinstance(define.source, Literal) and isinstance(define.source.value, str):
            yield from _NAME.findall(define.source.value)
        yield from _NAME.findall(define.name)[1:]  # a name that has its value: `N (M + 1)`


def _unused_defines(layer: CustomLayer, used: frozenset[str]) -> Iterator[str]:
    if any(file.sha256 for file in layer.files()):
        return  # the source is the author's own affair
    unused = [
        found[0]
        for define in layer.defines
        if (found := _NAME.match(define.name)) and found[0] not in used
    ]
    if unused:
        yield (
            f"{layer.file_name}: no source uses {_list(unused, 'define')}{_guess(unused[0], used)}."
        )


def _option_notes(layer: CustomLayer, op: Op, used: frozenset[str]) -> Iterator[str]:
    options = list(OpValues(op).options())
    asked = [source for source in value_sources(layer) if isinstance(source, FlexOption)]
    read = {source.key for source in asked}
    if layer.defines_options:
        read |= {key for key in options if f"{_PARAMETER}{key}" in used}
    unread = [key for key in options if key not in read]
    where = _where(layer, op)
    if unread:
        reader = "the source" if layer.defines_options else "the layer"
        yield f"{where}: {reader} never uses the op's {_list(unread, 'option')}."
    missing = [source.key for source in asked if source.key not in options]
    if missing and options:
        yield (
            f"{where}: the op has no {_list(missing, 'option')}, so the layer's defaults are used"
            f"{_guess(missing[0], options)}."
        )


def _unbound_inputs(layer: CustomLayer, op: Op) -> Iterator[str]:
    """Yields the inputs that the kernel never gets."""
    if not layer.kernel.arguments:
        return
    bound: set[int] = set()
    for argument in layer.kernel.arguments:
        if isinstance(argument, (TensorArgument, ShapeArgument)) and not argument.is_output:
            bound.add(argument.index)
        elif isinstance(argument, DataArgument):
            bound.add(find_data_input(op, argument.name))
    unbound = [
        str(index)
        for index, tensor in enumerate(op.inputs)
        if tensor is not None and index not in bound
    ]
    if unbound:
        inputs = f"input{'s' if len(unbound) > 1 else ''} {', '.join(unbound)}"
        yield f"{_where(layer, op)}: the kernel has no argument for {inputs} of the op."


def _any_formats(layer: CustomLayer, op: Op, used: frozenset[str]) -> Iterator[str]:
    """Yields tensors that take any format in a configuration for which OpenVINO has another default."""
    if not layer.file_name.lower().endswith(".xml"):
        return
    found: dict[str, None] = {}
    for argument in layer.kernel.arguments:
        if isinstance(argument, TensorArgument) and argument.format is Format.ANY:
            tensor = (op.outputs if argument.is_output else op.inputs)[argument.index]
            define = f"{'OUTPUT' if argument.is_output else 'INPUT'}{argument.index}_PITCHES"
            if tensor is not None and len(tensor.shape) >= _RANK_OF_IMAGES and define not in used:
                found[str(argument)] = None
    if found:
        yield (
            f"{_where(layer, op)}: format ANY of {', '.join(found)} means BYXF, the model's own "
            "order. In OpenVINO's GPU plugin, ANY means BFYX: write BFYX if the kernel depends on that order."
        )


def _where(layer: CustomLayer, op: Op) -> str:
    return ", ".join(dict.fromkeys((layer.file_name, f"op '{op.name}'")))


def _list(names: Sequence[str], noun: str) -> str:
    shown = ", ".join(f"'{name}'" for name in dict.fromkeys(names))
    return f"{noun}{'s' if len(set(names)) > 1 else ''} {shown}"


def _guess(name: str, known: Iterable[str]) -> str:
    near = closest_name(name, known, 0.75)
    return f" (did you mean '{near}'?)" if near else ""
