"""Classes for user-defined ops: a class describes an op, creates its nodes, and says which attributes are written.

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

An instance only holds attributes, and each node gets a copy of them. There is also a class for each builtin
operator of TFLite, whose attributes are its options in the schema: `Op.get_op_class_by_name("CONV_2D")`.
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
from compiler_plugin.transformations.op_request import check_inputs, refused
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.model.builtin_options import BUILTIN_NUMBERS, default_builtin_options
from litert.model.raw_options import RawField

OpClass: TypeAlias = "type[Op]"
Infer: TypeAlias = Callable[[Any], None]
Record: TypeAlias = str | tuple[str, str] | tuple[str, Callable[[Any], Any]]
"""An option to write: its name, and the attribute or function that gives its value; None is not written."""

DEFINITION = (
    "id", "name", "op", "type", "version", "infer", "type_infer", "in_ports_count", "out_ports_count",
)  # fmt: skip
"""Names of attributes that describe the op itself. Nodes get copies of all other attributes."""

_SET_OF_OPS = re.compile(r"opset\d+|experimental|extension")
"""Values that `version` can have in the Model Optimizer, but not in a TFLite file."""

CLASSES: ContextVar[Mapping[str, OpClass]] = ContextVar("CLASSES")
"""The classes of user-defined ops by name, while transformations run."""


class Op:
    """The base class for descriptions of user-defined ops.

    A derived class can define the functions `infer(node)` and `type_infer(node)`, as static methods or attributes.
    `infer` sets the shapes of a node's outputs, and the outputs' values if these are known. `type_infer` sets the
    types of the outputs.

    Attributes:
      op: Name of the op: the custom code of its nodes. If `attrs` contains `type`, the written file contains the
        value of `type` instead of this name.
      enabled: Whether this class also describes the ops with this name in the input model; if False, the class
        describes only ops that transformations create. If True, the attributes of an op in the input model are the
        op's options: the entries of a FlexBuffer, or the fields in `raw_options`. For an op whose attributes an
        `Extractor` sets, `enabled` has no effect.
      raw_options: Fields of the C struct in the op's options; None if the options are a FlexBuffer.
      layout: Which layout the op's tensors get if the vendor's compiler works in NCHW. With "image",
        tensors of rank 4 and 5, except constants, are images in NCHW. With "any", the host chooses one layout,
        NHWC or NCHW, for all of the op's tensors of rank 4 and 5. With None, all tensors keep the order of
        dimensions that they have in the file.
      graph: Graph in which nodes are created.
      attrs: All attributes, including those that describe the op itself, such as `type` and `version`.
      keeps_type: Whether output 0 keeps the type that it has in the model; if False, output 0 gets the type of
        input 0.
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
          defaults: Default attributes. `type` is the op name in the written file: a custom code, by default `op`;
            or the name of a builtin operator, whose options then are the entries of `backend_attrs`; or None for
            an internal op, which transformations must replace. `version` is the operator's version number; the
            name of an op set, such as `opset1`, is not written. `id` is the node's id, and also the node's name if
            `name` is missing. `in_ports_count` and `out_ports_count` are the numbers of input ports and output
            ports, including ports that are not connected.
          attrs: Attributes that override the default attributes.

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
        """The op name that is written to the file; None for an internal op, which transformations must replace."""
        found: str | None = self.attrs.get("type", self.attrs["op"])
        return found

    @property
    def source_file(self) -> str:
        """The file that defines the op; "" if there is none."""
        return extension_file(type(self))

    def supported_attrs(self) -> Sequence[Record]:
        """Returns the options to write to the file if `backend_attrs` is not overridden."""
        if type(self) is Op:  # only a subclass can declare options
            return list(self.node_attributes())
        return [field.name for field in self.raw_options or ()]

    def backend_attrs(self) -> Sequence[Record]:
        """Returns the options to write to the file.

        Each item is the name of an option, or a pair: the name, and the attribute or function that gives the
        option's value.
        """
        return self.supported_attrs()

    def node_attributes(self) -> dict[str, Any]:
        """Returns the attributes that a node gets."""
        return {name: value for name, value in self.attrs.items() if name not in DEFINITION}

    def create_node(
        self, inputs: Sequence[InputLike] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> Node:
        """Adds a node to the graph and connects it to its inputs.

        Args:
          inputs: Output ports, nodes (their output 0), arrays or numbers (new constants), or None for an
            unconnected input. By default, all input ports are unconnected.
          attrs: Attributes of the node that override the attributes of this op.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if there are more inputs than ports, or an attribute is not valid.
        """
        check_inputs(self.attrs["op"], inputs or ())
        definition = copy.copy(self)
        definition.attrs = {**self.attrs, **(attrs or {})}
        _check(definition)
        given = list(inputs or ())
        count = definition.attrs.get("in_ports_count", len(given))
        if len(given) > count:
            raise refused(
                f"the call passes {count_text(len(given), 'input')}, but {definition.attrs['op']} has only "
                f"{count_text(count, 'input port')}",
                f"Pass fewer inputs, or set the attribute in_ports_count of the op to {len(given)}.",
            )
        return definition._create(given + [None] * (count - len(given)))

    def create_node_with_data(
        self, inputs: Sequence[InputLike] | None = None, attrs: Mapping[str, Any] | None = None
    ) -> Node:
        """Adds a node and infers its output shapes and types; allowed only in the middle and back phases.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the graph is in the front phase, in which shapes are not inferred; or
            any error of `create_node` or of the inference.
        """
        if self.graph.stage is Phase.FRONT:
            raise refused(
                f"create_node_with_data cannot create a node of {self.attrs['op']} in the front phase, because "
                "shapes are not known there",
                "Call create_node, or move the transformation to middle or back.",
            )
        node = self.create_node(inputs, attrs)
        self.graph.infer()
        return node

    @classmethod
    def update_node_stat(cls, node: Node, attrs: Mapping[str, Any] | None = None) -> None:
        """Turns a custom op of the model into an op of this class.

        If the class is `Op`, the function only sets attributes.

        Args:
          node: Custom op in the model. The ports do not change. The bytes of the options do not change until an
            attribute is changed.
          attrs: Attributes that the extractor has read from the op's options. All other attributes get the default
            values of the class.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the node is not a custom op.
        """
        if not node.is_custom:
            raise refused(
                f"{node} is not a custom op and cannot become a {cls.op} op",
                f"Instead, write a transformation of the front phase that replaces {node.op}.",
            )
        definition = (
            cls(node.graph, attrs or {}) if cls.op else cls(node.graph, {"op": node.op}, attrs)
        )
        if (other := (attrs or {}).get("id", node.id)) != node.id:
            raise refused(
                f"the id of {node} cannot change from '{node.id}' to {other!r:.100}",
                "Remove 'id' from the attributes.",
            )
        if name := (attrs or {}).get("name"):
            node.name = name
        node.set_extracted(definition.node_attributes())
        definition.attach(node)

    @staticmethod
    def get_op_class_by_name(name: str) -> OpClass:
        """Returns the class of an op: the user's class, or else the class of the builtin operator of TFLite.

        Raises:
          LiteRtError: NOT_FOUND, if there is no class for the op; the hint suggests the most similar name.
        """
        classes = CLASSES.get({})
        if name in classes:
            return classes[name]
        if is_builtin(name):
            return builtin_op_class(name)
        known = [*classes, *BUILTIN_NUMBERS]
        hint = did_you_mean(name, known)
        raise LiteRtError(
            Status.NOT_FOUND,
            f"no op is named '{name}'",
            hint=hint
            or f"Write a class with op = '{name}' in the folder `ops` of your extensions.",
        )

    def attach(self, node: Node) -> None:
        """Makes a node an instance of this op without changing the node's attributes.

        The node's output shapes are inferred again, except in an NCHW partition, whose shapes are final.
        """
        if node.op != self.attrs["op"]:
            node.graph.rename_op(node, self.attrs["op"])
            node.is_changed = True  # this op determines the options to write
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
    """A builtin operator of TFLite. Its attributes are the operator's options in the schema."""

    enabled = False

    def __init__(self, graph: NodeGraph, attrs: Mapping[str, Any] | None = None) -> None:
        """Sets options of the operator, with enum values as names; other options have the schema's defaults."""
        super().__init__(graph, attrs)

    def node_attributes(self) -> dict[str, Any]:
        """Returns all options of the operator."""
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
    """Returns whether TFLite has a builtin operator of this name."""
    return name in BUILTIN_NUMBERS and name != "CUSTOM"


def builtin_class_name(name: str) -> str:
    """Returns the class name for a builtin operator of TFLite, such as `Conv2d` for CONV_2D."""
    return "".join(word.capitalize() for word in name.split("_"))


@cache
def builtin_op_class(name: str) -> OpClass:
    """Returns the class for a builtin operator of TFLite."""
    return type(builtin_class_name(name), (TfliteOp,), {"op": name, "__doc__": f"TFLite's {name}."})


def _check(definition: Op) -> None:
    attrs, name = definition.attrs, definition.attrs["op"]
    if not isinstance(name, str) or not name:
        raise _no_value("op", name, type(definition).__name__, "Set op to the name of the op.")
    if definition.type is not None and (
        not isinstance(definition.type, str) or not definition.type
    ):
        raise _no_value(
            "type",
            definition.type,
            name,
            "Give a custom code, the name of a builtin operator, or None.",
        )
    for text in ("id", "name"):
        if attrs.get(text) is not None and not isinstance(attrs[text], str):
            raise _no_value(text, attrs[text], name, "Give a string.")
    if isinstance(attrs.get("version"), str) and _SET_OF_OPS.fullmatch(attrs["version"]):
        del attrs["version"]
    for count in ("in_ports_count", "out_ports_count", "version"):
        value, least = attrs.get(count), int(count == "version")
        if value is None:
            attrs.pop(count, None)
        elif isinstance(value, bool) or not isinstance(value, int) or value < least:
            hint = f"Give a whole number, {least} or more"
            hint += (
                ". Names of op sets, such as 'opset1', are also allowed, but not written to the file."
                if least
                else "."
            )
            raise _no_value(count, value, name, hint)


def _no_value(attribute: str, value: object, name: str, hint: str) -> LiteRtError:
    return refused(f"attribute '{attribute}' of {name} cannot be {value!r:.100}", hint)
