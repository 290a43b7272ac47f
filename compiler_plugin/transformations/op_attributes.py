"""What of a custom op's node is written to the file: its type, and its attributes as a FlexBuffer or a C struct.

Options that nobody has changed keep their bytes, whatever wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_plugin.transformations.extension_call import describe_node, extension_call
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.node_attributes import OpDefinition
from compiler_plugin.transformations.op import is_builtin
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options
from litert.model.custom_options import (
    as_flex_value,
    find_flexbuffer_options,
    write_flexbuffer_options,
)
from litert.model.raw_options import write_raw_fields


def write_attributes(node: Node) -> None:
    """Puts into the model what a custom op's node says: its type, and its attributes, if they were changed.

    Raises:
      LiteRtError: INVALID_ARGUMENT, with op and attribute, for a value that cannot be written; INVALID_IR_TYPE for
        an op without a type.
    """
    if not node.is_custom:
        return
    op_type = node.type
    if op_type is None:
        raise LiteRtError(
            Status.INVALID_IR_TYPE,
            f"{node} is for transformations only, as its type is None, and none has replaced it",
            describe_node(node),
            "Let a transformation replace it, or give it a type.",
        )
    if is_builtin(op_type):
        _become_builtin(node, op_type)
    else:
        node.graph.rename_op(node, op_type)
        write_options(node)


def write_options(node: Node) -> None:
    """Puts a custom op's attributes into the model, if they were changed; its name stays.

    Raises:
      LiteRtError: INVALID_ARGUMENT, as `write_attributes`.
    """
    op = node.model_op
    if op is None or not op.is_custom or not node.is_changed or is_builtin(node.type or ""):
        return
    written = _find_bytes(node, node.op_definition)
    if written is not None:
        op.custom_options = Blob(written)
    node.is_changed = False


def find_written(node: Node, definition: OpDefinition | None) -> dict[str, Any]:
    """What of a node's attributes is written, by name; None is not written.

    Raises:
      LiteRtError: INVALID_ARGUMENT, for what is no record, or an attribute that the node has not;
        INVALID_TRANSFORMATION for what a record's function raises.
    """
    if definition is None:
        return dict(node.custom_attributes())
    name, file = definition.attrs["op"], definition.source_file
    with extension_call(f"{name}.backend_attrs", file, node):
        records = [_read_record(record) for record in definition.backend_attrs()]
    values: dict[str, Any] = {}
    for written, source in records:
        with extension_call(f"{name}.backend_attrs, attribute '{written}'", file, node):
            values[written] = source(node) if callable(source) else node[source]
    return values


def _become_builtin(node: Node, op_type: str) -> None:
    """Makes a node whose type is one of TFLite's own operators one of those."""
    op, definition = node.model_op, node.op_definition
    assert op is not None
    values = {k: v for k, v in find_written(node, definition).items() if v is not None}
    try:
        options = make_builtin_options(op_type, values)
    except LiteRtError as error:
        raise LiteRtError(error.status, error.what, describe_node(node), error.hint) from error
    node.graph.rename_op(node, op_type, is_custom=False)
    node.op_definition = None
    op.options, op.options_2 = options
    op.custom_options = None


def _find_bytes(node: Node, definition: OpDefinition | None) -> bytes | None:
    """Options for the file; None where they are to stay as they are."""
    values = find_written(node, definition)
    where = describe_node(node)
    data = node.custom_options
    entries = find_flexbuffer_options(data)
    fields = None if definition is None else definition.raw_options
    if fields is not None:
        return write_raw_fields(values, fields, b"" if entries is not None else data, where)
    known = entries if isinstance(entries, Mapping) else {}
    wanted = {
        name: as_flex_value(value, name, where)
        for name, value in values.items()
        if value is not None or (name in known and known[name] is None)
    }
    if all(_is_same(known.get(name), wanted.get(name)) for name in values):
        return None
    return write_flexbuffer_options(wanted, where)


def _is_same(known: object, wanted: object) -> bool:
    """Whether a value is what a FlexBuffer has, where lists are tuples."""
    if isinstance(known, Mapping) and isinstance(wanted, Mapping):
        return known.keys() == wanted.keys() and all(_is_same(known[k], wanted[k]) for k in known)
    if isinstance(known, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(known) == len(wanted) and all(map(_is_same, known, wanted))
    is_nan = known != known and wanted != wanted
    return type(known) is type(wanted) and (known == wanted or is_nan)


def _read_record(record: object) -> tuple[str, Any]:
    """The name in the file, and the attribute's name or a function of the node."""
    if isinstance(record, str):
        return record, record
    if isinstance(record, tuple) and len(record) == 2 and isinstance(record[0], str):
        name, source = record
        if isinstance(source, str) or callable(source):
            return name, source
    raise LiteRtError(
        Status.INVALID_ARGUMENT,
        f"{record!r:.100} is no record of what is written",
        hint="Give a name, (name, function of the node), or (name, name of the attribute).",
    )
