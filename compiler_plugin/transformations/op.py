"""The user's own ops: a class describes an op, creates nodes for it, and chooses the attributes for the file.

    class SoftMax(Op):
        op = "SoftMax"

        def __init__(self, graph, attrs):
            super().__init__(graph, {"infer": SoftMax.infer, "axis": 1, "in_ports_count": 1}, attrs)

        def backend_attrs(self):
            return ["axis"]

        @staticmethod
        def infer(node):
            node.out_port(0).data.set_shape(node.in_port(0).data.get_shape())

    node = SoftMax(graph, {"axis": -1}).create_node([x])

An instance only holds attributes: nodes get copies of the attributes and do not need the instance. TFLite's
builtin operators have such classes too, with the options of the schema:
`Op.get_op_class_by_name("CONV_2D")`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

from compiler_plugin.transform_options import Phase
from compiler_plugin.transformations.extension_call import extension_file
from compiler_plugin.transformations.node import InputLike, Node, NodeGraph
from compiler_plugin.transformations.op_request import check_inputs, did_you_mean, refused
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builtin_options import BUILTIN_NUMBERS, default_builtin_options
from litert.model.raw_options import RawField

OpClass: TypeAlias = "type[Op]"
Infer: TypeAlias = Callable[[Any], None]
Record: TypeAlias = str | tuple[str, str] | tuple[str, Callable[[Any], Any]]
"""A value for the file: the attribute of that name, another attribute, or a function's result (None: no value)."""

DEFINITION = (
    "id", "name", "op", "type", "version", "infer", "type_infer", "in_ports_count", "out_ports_count",
)  # fmt: skip
"""Attributes that describe the op itself; nodes have the other attributes."""

_SET_OF_OPS = re.compile(r"opset\d+|experimental|extension")
"""MO's `version`s; a file of TFLite has no place for them."""

CLASSES: ContextVar[Mapping[str, OpClass]] = ContextVar("CLASSES")
"""The user's ops by name, while transformations run."""


class Op:
    """The description of a kind of op.

    Static methods `infer(node)` and `type_infer(node)`, or attributes of these names, set shapes (and values) and
    types of a node's outputs.

    Attributes:
      op: Name of the op: the custom code of its nodes while transformations run, and in the file, unless `type`
        differs.
      enabled: Whether a model's ops with this name belong to this class if no extractor describes them: their
        options are then their attributes.
      raw_options: Fields of the C struct in the op's options; None if the options are a FlexBuffer.
      layout: in a vendor's partition that is in NCHW: "image" for an op whose tensors of rank 4 and 5, but for
        constants, are images and in that layout; "any" for one that takes them in either, all in the same; None
        for one that must have them as in the file.
      graph: Graph in which nodes are created.
      attrs: Attributes, including those of `DEFINITION`.
      keeps_type: Whether output 0 keeps its type in the model; otherwise output 0 has the type of input 0.
    """

    op: ClassVar[str] = ""
    enabled: ClassVar[bool] = True
    raw_options: ClassVar[Sequence[RawField] | None] = None
    layout: ClassVar[Literal["any", "image"] | None] = None

    def __init__(
        self,
        graph: NodeGraph,
        defaults: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        """Sets attributes.

        Args:
          graph: Graph in which nodes are created.
          defaults: `type` is what is written as the op: `op` where it is not given; another custom code; a builtin
            operator's name, whose options the records are then; None for an op that only transformations know.
            `version` is the operator's, a number; a set of ops, such as `opset1`, is not written. `id` is the
            node's id, and the node's name if there is no `name`. `in_ports_count` and `out_ports_count` are the
            numbers of ports that exist without a connection.
          attrs: Attributes that differ from the defaults.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if an attribute of `DEFINITION` has a value that is not allowed.
        """
        self.graph = graph
        self.attrs: dict[str, Any] = {**(defaults or {}), **(attrs or {})}
        self.attrs["op"] = self.attrs.get("op") or self.op
        self.keeps_type = False
        _check(self)

    @property
    def type(self) -> str | None:
        """The op name that is written to the file; None for an internal op."""
        found: str | None = self.attrs.get("type", self.attrs["op"])
        return found

    @property
    def source_file(self) -> str:
        """The file that defines the op; "" if there is none."""
        return extension_file(type(self))

    def supported_attrs(self) -> Sequence[Record]:
        """What of the attributes is written to the file, where `backend_attrs` does not say it."""
        if type(self) is Op:  # which has no class to say it
            return list(self.node_attributes())
        return [field.name for field in self.raw_options or ()]

    def backend_attrs(self) -> Sequence[Record]:
        """Returns the attributes that are written to the file."""
        return self.supported_attrs()

    def node_attributes(self) -> dict[str, Any]:
        """Returns the attributes that a node gets."""
        return {name: value for name, value in self.attrs.items() if name not in DEFINITION}

    def create_node(
        self, inputs: Sequence[InputLike] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> Node:
        """Adds a node to the graph, connected to its inputs.

        Args:
          inputs: Output ports, nodes (their output 0), arrays or numbers (new constants), or None for an
            unconnected input. Without any, ports are there to be connected.
          attrs: Attributes of the node that differ from those of this op.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if there are more inputs than ports, or an attribute is not possible.
        """
        check_inputs(self.attrs["op"], inputs or ())
        definition = copy.copy(self)
        definition.attrs = {**self.attrs, **(attrs or {})}
        _check(definition)
        given = list(inputs or ())
        count = definition.attrs.get("in_ports_count", len(given))
        if len(given) > count:
            raise refused(
                f"{definition.attrs['op']} has {count} input ports, and not {len(given)}",
                "Say in_ports_count among the attributes.",
            )
        return definition._create(given + [None] * (count - len(given)))

    def create_node_with_data(
        self, inputs: Sequence[InputLike] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> Node:
        """As `create_node`, with the shapes and types of its outputs; for the middle and the back phase.

        Raises:
          LiteRtError: INVALID_ARGUMENT in the front phase, where there are none; as `create_node`, and inference.
        """
        if self.graph.stage is Phase.FRONT:
            raise refused(
                f"a node of {self.attrs['op']} with data, and there are none in the front phase",
                "Use create_node, or put the transformation into middle or back.",
            )
        node = self.create_node(inputs, attrs)
        self.graph.infer()
        return node

    @classmethod
    def update_node_stat(cls, node: Node, attrs: Mapping[str, Any] | None = None) -> None:
        """For extractors: makes a custom op of the model one of this class; of `Op` itself, gives it attributes.

        Args:
          node: in the model; its ports stay, and its options as they are until an attribute is changed.
          attrs: that were found in its options; others have the class's defaults.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a node that is no custom op.
        """
        if not node.is_custom:
            raise refused(
                f"{node} is no custom op, and cannot become a {cls.op}",
                "Replace it by a transformation of the front phase.",
            )
        definition = (
            cls(node.graph, attrs or {}) if cls.op else cls(node.graph, {"op": node.op}, attrs)
        )
        if (attrs or {}).get("id", node.id) != node.id:
            raise refused(f"the id of {node}, which has '{node.id}', cannot be another")
        if name := (attrs or {}).get("name"):
            node.name = name
        node.set_extracted(definition.node_attributes())
        definition.attach(node)

    @staticmethod
    def get_op_class_by_name(name: str) -> OpClass:
        """Returns the class of an op: the user's class, or else that of a builtin operator of TFLite.

        Raises:
          LiteRtError: NOT_FOUND, with the most similar name.
        """
        classes = CLASSES.get({})
        if name in classes:
            return classes[name]
        if is_builtin(name):
            return builtin_op_class(name)
        known = [*classes, *BUILTIN_NUMBERS]
        hint = did_you_mean(name, known) or did_you_mean(name.upper(), known)
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no op is named '{name}'",
            hint=hint or "Put a class with this `op` into ops.",
        )

    def attach(self, node: Node) -> None:
        """Makes a node one of this op; its attributes are as they are.

        It is inferred again, but for a partition in a layout of its own, where shapes are as they must be.
        """
        if node.op != self.attrs["op"]:
            node.graph.rename_op(node, self.attrs["op"])
            node.is_changed = True  # what its options are to be is this op's to say
        types = {t.element_type for t in (*node.input_tensors[:1], *node.output_tensors[:1]) if t}
        self.keeps_type = len(types - {ElementType.NONE}) > 1
        node.op_definition = self
        if node.graph.layout == "NHWC":
            node.touch()

    def _create(self, inputs: list[InputLike]) -> Node:
        node = self.graph.create_op(
            self.attrs["op"],
            inputs,
            self.node_attributes(),
            name=self.attrs.get("name") or "",
            outputs=self.attrs.get("out_ports_count", 1),
            version=self.attrs.get("version", 1),
            is_custom=True,
            node_id=self.attrs.get("id") or "",
        )
        self.attach(node)
        return node


class TfliteOp(Op):
    """One of TFLite's own operators; its attributes are the options of the schema."""

    enabled = False

    def __init__(self, graph: NodeGraph, attrs: Mapping[str, Any] | None = None) -> None:
        """Sets options, enums by name; the others have the schema's defaults."""
        super().__init__(graph, attrs)

    def node_attributes(self) -> dict[str, Any]:
        """All options."""
        return {**default_builtin_options(self.op), **super().node_attributes()}

    def _create(self, inputs: list[InputLike]) -> Node:
        return self.graph.create_op(
            self.op,
            inputs,
            super().node_attributes(),
            name=self.attrs.get("name") or "",
            outputs=self.attrs.get("out_ports_count"),
            version=self.attrs.get("version", 1),
            node_id=self.attrs.get("id") or "",
        )


def is_builtin(name: str) -> bool:
    """Whether a name is one of TFLite's own operators."""
    return name in BUILTIN_NUMBERS and name != "CUSTOM"


def builtin_class_name(name: str) -> str:
    """What the class of one of TFLite's own operators is called: `Conv2d` of CONV_2D."""
    return "".join(word.capitalize() for word in name.split("_"))


@cache
def builtin_op_class(name: str) -> OpClass:
    """The class of one of TFLite's own operators."""
    return type(builtin_class_name(name), (TfliteOp,), {"op": name, "__doc__": f"TFLite's {name}."})


def _check(definition: Op) -> None:
    attrs, name = definition.attrs, definition.attrs["op"]
    if not isinstance(name, str) or not name:
        raise _no_value("op", name, type(definition).__name__, "Give the class the op's name.")
    if definition.type is not None and (
        not isinstance(definition.type, str) or not definition.type
    ):
        raise _no_value(
            "type", definition.type, name, "Give a custom code, a builtin's name or None."
        )
    for text in ("id", "name"):
        if attrs.get(text) is not None and not isinstance(attrs[text], str):
            raise _no_value(text, attrs[text], name, "Give a text.")
    if isinstance(attrs.get("version"), str) and _SET_OF_OPS.fullmatch(attrs["version"]):
        del attrs["version"]
    for count in ("in_ports_count", "out_ports_count", "version"):
        value, least = attrs.get(count), int(count == "version")
        if value is None:
            attrs.pop(count, None)
        elif isinstance(value, bool) or not isinstance(value, int) or value < least:
            hint = f"Give a whole number, {least} or more"
            hint += ", or a set of ops as opset1, which is not written." if least else "."
            raise _no_value(count, value, name, hint)


def _no_value(attribute: str, value: object, name: str, hint: str) -> LiteRtError:
    return refused(f"'{attribute}' of {name} cannot be {value!r:.100}", hint)
