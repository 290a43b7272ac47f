"""The `<Buffers>` of a custom layer configuration become a kernel's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from litert.core.formula import Formula
from vendor_reference.custom_layers.custom_layer import (
    Binding,
    DataBinding,
    Format,
    InternalBinding,
    TensorBinding,
)
from vendor_reference.custom_layers.xml_node import XmlNode

_FORMATS = {name: f for f in Format for name in (f.value, f.value.lower())}
_MOST_ARGUMENTS = 256
_MOST_PORTS = 65_535


def read_buffers(buffers: XmlNode) -> Sequence[Binding]:
    """The arguments by `arg-index`; a gap is input 0, as OpenVINO fills it.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with line, element and reason.
    """
    bound: dict[int, Binding] = {}
    formats: dict[tuple[bool, int], Format] = {}
    for node in buffers.children("Tensor", "Data"):
        index = node.index("arg-index", _MOST_ARGUMENTS - 1)
        binding: Binding
        if node.element.name == "Data":
            binding = DataBinding(node.text("name", "a constant input's"), is_flat=True)
        else:
            binding = _tensor(node, formats)
        if index in bound:
            node.note(f"arg-index {index} is bound again: the last one counts")
        bound[index] = binding
    if not formats:
        raise buffers.error("no <Tensor> for an input or output in it")
    _renumber_outputs(buffers, bound)
    first = TensorBinding(False, 0, formats.get((False, 0), Format.BFYX))
    gaps = [index for index in range(max(bound)) if index not in bound]
    if gaps:
        listed = ", ".join(map(str, gaps))
        buffers.note(f"nothing has arg-index {listed}: the kernel gets input 0 there")
    return [bound.get(index, first) for index in range(max(bound) + 1)]


def _tensor(node: XmlNode, formats: dict[tuple[bool, int], Format]) -> Binding:
    """A tensor, or internal memory; `formats` are those of ports before it, of which the first counts."""
    kind = node.attributes.get("type", "")
    if kind not in ("input", "output", "internal"):
        what = f"type '{kind}'" if "type" in node.attributes else "no type"
        raise node.error(f"{what}, expected input, output or internal")
    port = node.index("port-index", _MOST_PORTS)
    if kind == "internal":
        return InternalBinding(None, _internal_size(node))
    name = node.attributes.get("format", "BFYX")
    if name not in _FORMATS:
        allowed = ", ".join(f.value for f in Format)
        raise node.error(
            f"format '{name}' is unknown", f"Known: {allowed}; or all of it in lower case."
        )
    key = (kind == "output", port)
    taken = formats.setdefault(key, _FORMATS[name])
    if taken is not _FORMATS[name]:
        node.note(f"{kind} {port} is bound as {taken.value} before: that counts, and not {name}")
    return TensorBinding(*key, taken)


def _internal_size(node: XmlNode) -> Formula:
    size = node.formula("size", node.text("size", "its elements"))
    if size.has_letters or not all(s.is_bfyx for s in size.tensor_sizes):
        raise node.error(
            f"size '{size.text}' has more than numbers, INPUT0_DIMS[0] and OUTPUT0_DIMS[0]"
        )
    return size


def _renumber_outputs(buffers: XmlNode, bound: dict[int, Binding]) -> None:
    """Outputs that are numbered on from the inputs, as the ports of an IR are, count from 0."""
    tensors = {i: b for i, b in bound.items() if isinstance(b, TensorBinding)}
    first = len({b.index for b in tensors.values() if not b.is_output})
    outputs = sorted({b.index for b in tensors.values() if b.is_output})
    if not first or outputs != list(range(first, first + len(outputs))) or not outputs:
        return
    buffers.note(f"numbers outputs on from {first}, as the ports of an IR: {first} is output 0")
    for index, binding in tensors.items():
        if binding.is_output:
            bound[index] = replace(binding, index=binding.index - first)
