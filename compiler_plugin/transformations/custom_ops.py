"""Converts the options of custom ops to attributes of nodes, and changed attributes back to options.

    class FooExtractor(Extractor):
        op = "Foo"

        def extract(self, node):
            options = flexbuffer_options(node)
            Foo.update_node_stat(node, {"axis": options["axis"]})
            return True

Three sources can describe a custom op, in this order of priority: the mapping file, an extractor, an enabled class
with the op's name. Without a description, the node's attributes are the entries of the op's FlexBuffer. The
attributes of a builtin operator are the fields of its options in the schema. The bytes of the options stay the
same unless a transformation changes an attribute.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from compiler_plugin.transformations.extension_call import (
    describe_node,
    extension_call,
    extension_file,
)
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.mapping_file import MappedOp, MappedOpDefinition
from compiler_plugin.transformations.node import Node
from compiler_plugin.transformations.node_attributes import flexbuffer_entries
from compiler_plugin.transformations.op import CLASSES, DEFINITION, Op, is_builtin
from compiler_plugin.transformations.op_request import refused
from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.host.extensions import check_unique
from litert.model.blob import Blob
from litert.model.builtin_options import make_builtin_options
from litert.model.custom_options import (
    as_flex_value,
    find_flexbuffer_options,
    write_flexbuffer_options,
)
from litert.model.raw_options import RawField, read_raw_fields, write_raw_fields


class Extractor(ABC):
    """Reads the options of each op that has the name `op`, and sets the op's attributes.

    Attributes:
      op: Name of a custom op (its custom code); or name of a builtin operator, whose nodes then get additional
        attributes.
      enabled: Whether the extractor is used; an op can have only one enabled extractor.
    """

    op: ClassVar[str] = ""
    enabled: ClassVar[bool] = True

    @abstractmethod
    def extract(self, node: Node) -> bool:
        """Reads a node's options and sets its attributes, usually with `update_node_stat` of the op's class.

        Args:
          node: Node of the op, unchanged since the file was read; the shapes of its outputs are not known yet.

        Returns:
          Whether all attributes are set. If the function returns False, the op's class sets the attributes. If the
          op has no enabled class, the attributes are the entries of the FlexBuffer that contains the options.
        """


def flexbuffer_options(node: Node) -> Mapping[str, Any]:
    """Returns a mapping from the names of a custom op's options to their values; empty if the op has no options.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the options are not a FlexBuffer map.
    """
    found = find_flexbuffer_options(node.custom_options)
    if isinstance(found, Mapping):
        return found
    if not len(node.custom_options):
        return {}
    raise LiteRtError(
        Status.INVALID_FLATBUFFER,
        f"the op's custom options ({count_text(len(node.custom_options), 'byte')}) are not a FlexBuffer map",
        describe_node(node),
        "If the options are a C struct, call raw_options(node, fields), where `fields` describes the struct.",
    )


def raw_options(node: Node, fields: Sequence[RawField]) -> Mapping[str, Any]:
    """Reads the options of a custom op as a C struct with the given fields, and returns the values by field name.

    Use `raw_fields` to make the fields.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the options do not contain all fields.
    """
    return read_raw_fields(node.custom_options, fields)


class OpLibrary:
    """The descriptions of custom ops: classes from extension folders, and entries of the `--ops_mapping` file."""

    def __init__(
        self,
        classes: Sequence[type[Op]] = (),
        extractors: Sequence[type[Extractor]] = (),
        mapping: Mapping[str, MappedOp] | None = None,
    ) -> None:
        """Collects the descriptions of ops.

        Args:
          classes: Classes of ops, whose names must differ.
          extractors: Classes of extractors; disabled extractors are not used.
          mapping: Declarations of the mapping file.

        Raises:
          LiteRtError: ALREADY_EXISTS, if two ops have the same name (the error names both files);
            INVALID_ARGUMENT, if a class has no op name or has the name of a builtin operator; DYNAMIC_LOADING, if
            an extractor cannot be created.
        """
        for cls in classes:
            _check_name(cls)
        enabled = [cls for cls in extractors if cls.enabled]
        for kind in (classes, enabled):
            check_unique(
                [(cls.op, f"{cls.__name__} of {extension_file(cls)}") for cls in kind],
                "Rename one of the ops, or omit one of the folders.",
            )
        self._classes = {cls.op: cls for cls in classes}
        for extractor in enabled:
            _check_name(extractor)
        self._extractors = {cls.op: cls() for cls in enabled}
        self._mapping = mapping or {}
        # Written nodes by the buffer of their options, which copies of an op share.
        self._written: dict[Blob | None, tuple[Op | None, Mapping[str, Any]]] = {}
        self._names = {*self._classes, *self._extractors, *self._mapping}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Lets `Op.get_op_class_by_name` find the ops of this library inside the `with` block."""
        token = CLASSES.set(self._classes)
        try:
            yield
        finally:
            CLASSES.reset(token)

    def extract(self, graph: Graph) -> None:
        """Reads the attributes of the custom ops in a graph, and connects the ops with their definitions.

        Raises:
          LiteRtError: If an extractor fails; the error names the op and the extractor's file.
        """
        for name in graph.op_names:
            if name in self._names:
                for node in graph.get_op_nodes(op=name):
                    self._extract(name, node)

    def remember(self, node: Node) -> None:
        """Stores the attributes of a node.

        If a copy of the node's op is later part of a vendor's partition, the copy gets these attributes.
        """
        definition, op = node.op_definition, node.model_op
        if isinstance(definition, Op) and op is not None and op.custom_options is not None:
            self._written[op.custom_options] = definition, node.custom_attributes()
            self._names.add(node.op)

    def _extract(self, name: str, node: Node) -> None:
        op = node.model_op
        options = None if op is None else op.custom_options
        definition, attributes = self._written.get(options, (None, {}))
        if definition is not None and definition.type == name:
            node.set_extracted(attributes)
            definition.attach(node)
        elif name in self._mapping and node.is_custom:
            mapped = self._mapping[name]
            if not mapped.has_parameters:
                node.set_extracted({})
            MappedOpDefinition(node, mapped).attach(node)
        elif name in self._extractors and _run_extractor(self._extractors[name], node):
            return
        elif name in self._classes and self._classes[name].enabled:
            cls = self._classes[name]
            with extension_call(cls.__name__, extension_file(cls), node):
                if cls.raw_options is not None:
                    found = raw_options(node, cls.raw_options)
                else:
                    found = flexbuffer_entries(node.custom_options)
                _check_options(found)
                cls.update_node_stat(node, found)


def _run_extractor(extractor: Extractor, node: Node) -> bool:
    cls = type(extractor)
    with extension_call(f"{cls.__name__}.extract", extension_file(cls), node):
        found = extractor.extract(node)
        if not isinstance(found, bool):
            raise LiteRtError(
                Status.INVALID_TRANSFORMATION,
                f"the function extract must return True or False, but returns {found!r:.100}",
                hint="Return True if the function has set all attributes of the op; otherwise return False.",
            )
    return found


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuses options whose names have a special meaning as attributes."""
    for name in options:
        if name in DEFINITION:
            raise refused(
                f"the custom option '{name}' cannot become an attribute, because every op already has an "
                "attribute of this name",
                f"Write an extractor that stores the option as my_{name}, and let backend_attrs of the op's "
                f"class return the pair ('{name}', 'my_{name}').",
            )


def _check_name(cls: type[Op] | type[Extractor]) -> None:
    """Refuses a class whose `op` cannot be an op's name."""
    where = f"{cls.__name__} of {extension_file(cls)}"
    if not isinstance(cls.op, str) or not cls.op:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the class attribute 'op' must be the name of an op, but is {cls.op!r:.100}",
            where,
            'Set the attribute to the name of the op: op = "MyOp".',
        )
    if issubclass(cls, Op) and is_builtin(cls.op):
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"op = '{cls.op}' is the name of a builtin operator of TFLite, which already has a class",
            where,
            "Give your op another name. Only the attribute `type` may be the name of a builtin operator.",
        )


def write_attributes(node: Node) -> None:
    """Writes a custom op's type, and its changed attributes, into the model."""
    if not node.is_custom:
        return
    op_type = node.type
    if op_type is None:
        raise LiteRtError(
            Status.INVALID_IR_TYPE,
            "the op cannot be written to the file: its type is None, and no transformation has replaced it",
            describe_node(node),
            "Write a transformation that replaces the op, or set `type` in the op's class to a custom code.",
        )
    if is_builtin(op_type):
        _become_builtin(node, op_type)
    else:
        node.graph.rename_op(node, op_type)
        write_options(node)


def write_options(node: Node) -> None:
    """Writes a custom op's changed attributes into the model, but does not change the op's name."""
    op = node.model_op
    if op is None or not op.is_custom or not node.is_changed or is_builtin(node.type or ""):
        return
    written = _find_bytes(node)
    if written is not None:
        op.custom_options = Blob(written)
    node.is_changed = node.has_lost = False


def _find_written(node: Node) -> dict[str, Any]:
    """Returns the options to write for a node, by name; options with the value None are not written."""
    definition = node.op_definition
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
    """Turns a custom op into a builtin op, if its type is the name of a builtin operator."""
    op = node.model_op
    assert op is not None
    values = {k: v for k, v in _find_written(node).items() if v is not None}
    with _writing(node, values):
        options = make_builtin_options(op_type, values)
    node.graph.rename_op(node, op_type, is_custom=False)
    node.op_definition = None
    op.options, op.options_2 = options
    op.custom_options = None


@contextmanager
def _writing(node: Node, values: Mapping[str, Any]) -> Iterator[None]:
    """Adds the node to errors that occur when its options are written."""
    try:
        yield
    except LiteRtError as error:
        hint = error.hint
        if not hint and any(isinstance(value, str) for value in values.values()):
            hint = "In backend_attrs, return numbers and lists of numbers, because strings are not converted."
        raise LiteRtError(error.status, error.what, describe_node(node), hint) from error


def _find_bytes(node: Node) -> bytes | None:
    """Returns the bytes of the options for the file; None if the options do not change."""
    values = _find_written(node)
    where = describe_node(node)
    data, definition = node.custom_options, node.op_definition
    entries = find_flexbuffer_options(data)
    fields = None if definition is None else definition.raw_options
    if fields is not None:
        with _writing(node, values):
            return write_raw_fields(values, fields, b"" if entries is not None else data, where)
    known = entries if isinstance(entries, Mapping) else {}
    wanted = {
        name: as_flex_value(value, name, where)
        for name, value in values.items()
        if value is not None or (name in known and known[name] is None)
    }
    if not node.has_lost and all(_is_same(known.get(name), wanted.get(name)) for name in values):
        return None
    return write_flexbuffer_options(wanted, where)


def _is_same(known: object, wanted: object) -> bool:
    """Whether a value equals a value of a FlexBuffer; lists and tuples can be equal."""
    if isinstance(known, Mapping) and isinstance(wanted, Mapping):
        return known.keys() == wanted.keys() and all(_is_same(known[k], wanted[k]) for k in known)
    if isinstance(known, (list, tuple)) and isinstance(wanted, (list, tuple)):
        return len(known) == len(wanted) and all(map(_is_same, known, wanted))
    if isinstance(known, float) and isinstance(wanted, float):
        return repr(known) == repr(wanted)  # 0.0 and -0.0 differ, and NaNs are equal
    return type(known) is type(wanted) and known == wanted


def _read_record(record: object) -> tuple[str, Any]:
    """Returns the option's name in the file, and the name of an attribute or a function of the node."""
    if isinstance(record, str):
        return record, record
    if isinstance(record, tuple) and len(record) == 2 and isinstance(record[0], str):
        name, source = record
        if isinstance(source, str) or callable(source):
            return name, source
    raise refused(
        f"backend_attrs returns the entry {record!r:.100}, which describes no option",
        "Use the name of an attribute as the entry, or a pair: the option's name, and the name of an attribute "
        "or a function of the node.",
    )
