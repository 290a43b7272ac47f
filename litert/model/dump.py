"""A model as text, in MLIR's manner: for golden tests, and for people.

The text depends on what the model says alone: it has no addresses, and no offsets in the file. Values are
numbered in order, names stand in locations, large constants are digests, and strings are printable ASCII
whatever the file holds. A subgraph is a function; ops have the generic form of the dialect `tfl`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from litert.model.dump_text import (
    attribute,
    constant_text,
    data_text,
    key,
    options_text,
    quote,
    symbol,
    table_attributes,
    tensor_type_text,
    text_or_data,
)
from litert.model.graph import Appended, Model, Op, Signature, Subgraph, Tensor


def dump(model: Model) -> str:
    """The text of a model; ends in a newline.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, for damage in a table that reading the model has not looked at.
    """
    attributes = [f"tfl.schema_version = {model.version}"]
    if model.description is not None:
        attributes.append(f"tfl.description = {quote(model.description)}")
    lines = [f"module attributes {_braces(attributes)} {{"]
    calls = {
        op: (index, name)
        for index, module in enumerate(model.byte_code)
        for op, name in module.users
    }
    signatures: dict[int, list[Signature]] = {}
    for signature in model.signatures:
        signatures.setdefault(id(signature.subgraph), []).append(signature)
    for index, subgraph in enumerate(model.subgraphs):
        function = _Function(subgraph, signatures.get(id(subgraph), ()), calls)
        lines += [f"  // subgraph {index}", *function.lines()]
    lines += [_byte_code(index, module) for index, module in enumerate(model.byte_code)]
    for entry in model.metadata:
        blob = entry.buffer.blob
        value = text_or_data(blob.view) if blob else '""'
        lines.append(f'  "tfl.metadata"() {{name = {quote(entry.name)}, value = {value}}}')
    if model.trailing:
        lines.append(f'  "tfl.trailing"() {{value = {data_text(model.trailing.view)}}}')
    lines.append("}\n")
    return "\n".join(lines)


def dump_subgraph(subgraph: Subgraph) -> str:
    """The text of one subgraph, such as a partition; ends in a newline."""
    return "\n".join(line[2:] for line in _Function(subgraph, (), {}).lines()) + "\n"


class _Function:
    """The text of one subgraph, and the names of its values."""

    def __init__(
        self,
        subgraph: Subgraph,
        signatures: Sequence[Signature],
        calls: dict[Op, tuple[int, str]],
    ) -> None:
        self._subgraph = subgraph
        self._signatures = signatures
        self._calls = calls
        self._names: dict[Tensor, str] = {}
        self._types: dict[Tensor, str] = {}

    def lines(self) -> list[str]:
        subgraph = self._subgraph
        for index, tensor in enumerate(subgraph.inputs):
            self._names.setdefault(tensor, f"%arg{index}")
        made = [tensor for op in subgraph.ops for tensor in op.outputs]
        values = self._value_lines(set(made))
        before = len(self._names)
        for tensor in made:
            self._names.setdefault(tensor, f"%{len(self._names) - before}")
        ops = [self._op_line(op) for op in subgraph.ops]
        returned = ", ".join(map(self._name, subgraph.outputs))
        types = ", ".join(map(self._type, subgraph.outputs))
        end = f"    return {returned} : {types}" if subgraph.outputs else "    return"
        return [self._header(), *values, *ops, end, "  }"]

    def _header(self) -> str:
        subgraph = self._subgraph
        arguments = ", ".join(
            f"{self._name(tensor)}: {self._type(tensor)}{_location([tensor])}"
            for tensor in subgraph.inputs
        )
        types = [self._type(tensor) for tensor in subgraph.outputs]
        result = types[0] if len(types) == 1 else f"({', '.join(types)})"
        attributes = [
            f"{key(s.key)} = {{inputs = {self._bindings(s.inputs)}, "
            f"outputs = {self._bindings(s.outputs)}}}"
            for s in self._signatures
        ]
        suffix = f" attributes {{signatures = {_braces(attributes)}}}" if attributes else ""
        return f"  func.func {symbol(subgraph.name)}({arguments}) -> {result}{suffix} {{"

    def _bindings(self, arguments: Iterable[tuple[str, Tensor]]) -> str:
        return _braces(f"{key(name)} = {self._name(tensor)}" for name, tensor in arguments)

    def _value_lines(self, made: set[Tensor]) -> list[str]:
        """What is there before the first op: constants, variables, and tensors that nothing makes."""
        lines = []
        counts: dict[str, int] = {}
        for tensor in self._subgraph.tensors:
            if tensor in self._names or (tensor in made and not tensor.is_constant):
                continue
            if tensor.is_constant:
                prefix, op, value = "cst", "pseudo_const", f"{{value = {constant_text(tensor)}}} "
            else:
                prefix, value = ("var", "") if tensor.is_variable else ("unset", "")
                op = "variable" if tensor.is_variable else "unset"
            number = counts[prefix] = counts.get(prefix, -1) + 1
            name = self._names[tensor] = f"%{prefix}{number}"
            lines.append(
                f'    {name} = "tfl.{op}"() {value}: () -> {self._type(tensor)}'
                f"{_location([tensor])}"
            )
        return lines

    def _op_line(self, op: Op) -> str:
        results = f"{', '.join(map(self._name, op.outputs))} = " if op.outputs else ""
        operands = ", ".join("none" if t is None else self._name(t) for t in op.inputs)
        types = ", ".join("none" if t is None else self._type(t) for t in op.inputs)
        made = [self._type(tensor) for tensor in op.outputs]
        result_types = made[0] if len(made) == 1 else f"({', '.join(made)})"
        attributes = self._attributes(op)
        name = "custom" if op.is_custom else op.name.lower()
        return (
            f'    {results}"tfl.{name}"({operands})'
            f"{f' {_braces(attributes)}' if attributes else ''}"
            f" : ({types}) -> {result_types}{_location(op.outputs)}"
        )

    def _attributes(self, op: Op) -> list[str]:
        attributes = []
        if op.is_custom:
            attributes.append(f"custom_code = {quote(op.code.custom_code or '')}")
        if op in self._calls:
            module, function = self._calls[op]
            attributes.append(f"byte_code = {module}, function = {quote(function)}")
        elif op.custom_options is not None:
            attributes.append(f"custom_option = {options_text(op.custom_options.view)}")
        for table in (op.options, op.options_2):
            if table is not None:
                attributes += table_attributes(table)
        if op.code.version != 1:
            attributes.append(f"version = {op.code.version}")
        if op.intermediates:
            names = ("none" if t is None else self._name(t) for t in op.intermediates)
            attributes.append(f"intermediates = [{', '.join(names)}]")
        if op.mutating_variable_inputs:
            values = attribute(op.mutating_variable_inputs)
            attributes.append(f"mutating_variable_inputs = {values}")
        return attributes

    def _name(self, tensor: Tensor) -> str:
        """A value's name; also for one that the subgraph does not list, in a graph under change."""
        return self._names.setdefault(tensor, f"%stray{len(self._names)}")

    def _type(self, tensor: Tensor) -> str:
        text = self._types.get(tensor)
        if text is None:
            text = self._types[tensor] = tensor_type_text(tensor)
        return text


def _byte_code(index: int, module: Appended) -> str:
    return f'  "tfl.byte_code"() {{index = {index}, value = {data_text(module.blob.view)}}}'


def _location(tensors: Sequence[Tensor]) -> str:
    names = [tensor.name for tensor in tensors]
    return f" loc({', '.join(map(quote, names))})" if any(names) else ""


def _braces(items: Iterable[str]) -> str:
    return f"{{{', '.join(items)}}}"
