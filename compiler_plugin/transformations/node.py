"""A node of the graph: an op, or an end of data: an input, a constant, a variable or a result of the model.

Attributes are read and set by name (`node.stride_w`, `node["stride_w"]`). Those of a builtin op are the fields
of its options in TFLite's schema, enums by their names there; setting one changes the op at once. Those of a
custom op are what its extractor found, or the entries of its FlexBuffer; they are written when the model is
emitted. Any other name is free for the transformations, and is not written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from compiler_plugin.transformations.counterparts import NODE_NAMES
from compiler_plugin.transformations.op_request import check_name
from compiler_plugin.transformations.ports import InPort, OutPort
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.builtin_options import get_builtin_option, option_names, set_builtin_option
from litert.model.custom_options import find_flexbuffer_options
from litert.model.graph import Op, Signature, Tensor

if TYPE_CHECKING:
    from compiler_plugin.transformations.graph import Graph
    from compiler_plugin.transformations.op import Op as UserOp

PARAMETER, CONST, VARIABLE, RESULT = "Parameter", "Const", "Variable", "Result"
"""What `op` says of nodes that are no ops: an input of the subgraph, constant data, a tensor that keeps its value
between runs, and an output of the subgraph."""

ENDS = (PARAMETER, CONST, VARIABLE, RESULT)

_MISSING: Any = object()
_INFERS = (
    "infer",
    "type_infer",
    "data_type",
)  # attributes that say what an op without a definition is
_FIXED = ("graph", "id", "model_op", "op", "type")

_STANDARD = ("id", "name", "op", "type", "version")  # attributes that each node has


class Node:
    """An op of a subgraph, or an end of its data; made by the graph, one for each.

    Attributes:
      graph: that it is in.
      id: unique in the graph; never reused.
      model_op: the op in the model; None for `Parameter`, `Const`, `Variable` and `Result`.
      tensor: of these four their tensor.
      op_definition: the user's definition of a custom op (`Op`); None where there is none.
      is_changed: whether attributes were set that are not in the model yet.
      creation: which of the ops that the graph was asked to create it is, from 1; 0 for all others.
    """

    graph: Graph
    id: str
    model_op: Op | None
    tensor: Tensor | None
    op_definition: UserOp | None
    is_changed: bool
    creation: int
    result_index: int
    result_name: str
    result_signatures: list[tuple[Signature, int]]
    _kind: str
    _free: dict[str, Any] | None
    _options: dict[str, Any] | None

    __iter__ = None  # which `__getitem__` would make it seem to have

    __slots__ = (
        "_free", "_kind", "_options", "creation", "graph", "id", "is_changed", "model_op",
        "op_definition", "result_index", "result_name", "result_signatures", "tensor",
    )  # fmt: skip

    def __init__(
        self, graph: Graph, node_id: str, kind: str, model_op: Op | None, tensor: Tensor | None
    ) -> None:
        """For `Graph`.

        Args:
          graph: that it is in.
          node_id: unique in the graph.
          kind: one of the four; "" for an op.
          model_op: of an op.
          tensor: of any other.
        """
        keep = object.__setattr__
        keep(self, "graph", graph)
        keep(self, "id", node_id)
        keep(self, "_kind", kind)
        keep(self, "model_op", model_op)
        keep(self, "tensor", tensor)
        keep(self, "_free", None)
        keep(self, "_options", None)
        keep(self, "op_definition", None)
        keep(self, "is_changed", False)
        keep(self, "creation", 0)
        if kind == RESULT:
            keep(self, "result_index", -1)
            keep(self, "result_name", tensor.name if tensor else "")
            signatures: list[tuple[Signature, int]] = []
            keep(self, "result_signatures", signatures)

    @property
    def op(self) -> str:
        """What it does: a builtin operator's name in the schema, a custom code, or one of the four ends."""
        if self.model_op is None:
            return self._kind
        return self.model_op.name

    @property
    def type(self) -> str | None:
        """What is written as the op; None for one that is for transformations only."""
        return self.op if self.op_definition is None else self.op_definition.type

    @property
    def name(self) -> str:
        """The name of its first output tensor; of a result, the name that the model gives it."""
        if self._kind == RESULT:
            return self.result_name
        tensors = self.output_tensors
        return tensors[0].name if tensors else ""

    @name.setter
    def name(self, name: str) -> None:
        self.check_alive()
        check_name(name)
        if self._kind == RESULT:
            object.__setattr__(self, "result_name", name)
            self.graph.outputs.name_result(self)
        elif self.output_tensors:
            self.graph.rename(self.output_tensors[0], name)

    @property
    def version(self) -> int:
        """Of the operator, in the schema's numbers; 1 for ends."""
        return 1 if self.model_op is None else self.model_op.code.version

    @version.setter
    def version(self, version: int) -> None:
        op = self._check_op()
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"version {version!r:.100} of {self}",
                hint="Give a whole number from 1 on.",
            )
        op.code = self.graph.model.operator_code(op.code.builtin_code, op.code.custom_code, version)
        self.touch()

    @property
    def is_op(self) -> bool:
        """Whether it is an op, and none of the four ends."""
        return not self._kind

    @property
    def is_const(self) -> bool:
        return self._kind == CONST

    @property
    def is_result(self) -> bool:
        return self._kind == RESULT

    @property
    def is_custom(self) -> bool:
        return self.model_op is not None and self.model_op.is_custom

    @property
    def custom_options(self) -> memoryview:
        """The bytes of a custom op's options, as they are in the model; empty where there are none."""
        blob = None if self.model_op is None else self.model_op.custom_options
        return memoryview(b"") if blob is None else blob.view

    @property
    def is_alive(self) -> bool:
        """Whether it is still in its graph."""
        return self.graph.has_node(self)

    def check_alive(self) -> None:
        """Refuses a node that was removed.

        Raises:
          LiteRtError: INVALID_ARGUMENT.
        """
        if not self.is_alive:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{self} was removed from the graph",
                hint="Ask for it again.",
            )

    def touch(self) -> None:
        """Notes that its outputs are to be inferred again."""
        self.graph.touch(self)

    # Ports.

    @property
    def input_tensors(self) -> Sequence[Tensor | None]:
        """What its input ports read."""
        if self.model_op is not None:
            return self.model_op.inputs
        return [self.tensor] if self._kind == RESULT else []

    @property
    def output_tensors(self) -> Sequence[Tensor]:
        """The tensors of its output ports."""
        if self.model_op is not None:
            return self.model_op.outputs
        return [] if self.tensor is None or self._kind == RESULT else [self.tensor]

    def in_port(self, index: int = 0) -> InPort:
        """An input port.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where there is none of that number.
        """
        self._check_index(index, len(self.input_tensors), "input")
        return InPort(self, index)

    def out_port(self, index: int = 0) -> OutPort:
        """An output port.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where there is none of that number.
        """
        self._check_index(index, len(self.output_tensors), "output")
        return OutPort(self, index)

    def in_ports(self) -> list[InPort]:
        """All input ports, connected or not, by their numbers."""
        return [InPort(self, index) for index in range(len(self.input_tensors))]

    def out_ports(self) -> list[OutPort]:
        """All output ports, by their numbers."""
        return [OutPort(self, index) for index in range(len(self.output_tensors))]

    def is_in_port_connected(self, index: int) -> bool:
        """Whether there is such a port, and it reads something."""
        return 0 <= index < len(self.input_tensors) and self.input_tensors[index] is not None

    def is_out_port_connected(self, index: int) -> bool:
        """Whether there is such a port, and something reads it."""
        return 0 <= index < len(self.output_tensors) and self.out_port(index).is_read

    def add_input_port(self, source: OutPort | None = None) -> InPort:
        """Adds an input port behind the others.

        Args:
          source: what it reads; nothing, if it is not given.
        """
        op = self._check_op()
        port = InPort(self, len(op.inputs))
        if source is not None:
            port.check_source(source, is_new=True)
        op.append_input(source.tensor if source else None)
        self.graph.note_input(op, op.inputs[-1], None)
        self.touch()
        return port

    def add_output_port(
        self,
        element_type: ElementType = ElementType.NONE,
        name: str = "",
        quantization: Quantization | None = None,
    ) -> OutPort:
        """Adds an output port behind the others, with a tensor of its own.

        Args:
          element_type: of the tensor; NONE is inferred.
          name: of the tensor; made from the node's where it is not given.
          quantization: of the tensor.
        """
        op = self._check_op()
        check_name(name)
        base = name or (f"{self.name}:{len(op.outputs)}" if op.outputs else self.op)
        op.append_output(self.graph.create_tensor(base, element_type, quantization))
        self.touch()
        return OutPort(self, len(op.outputs) - 1)

    def delete_input_port(self, index: int) -> None:
        """Takes an input port away; those behind it move up.

        Raises:
          LiteRtError: INVALID_ARGUMENT, where there is none of that number, or the node is no op.
        """
        op = self._check_op()
        self._check_index(index, len(op.inputs), "input")
        self.set_input(index, None)
        op.remove_input(index)

    def set_input(self, index: int, tensor: Tensor | None) -> None:
        """For ports: reads a tensor of this graph, which was checked."""
        if self._kind == RESULT:
            assert tensor is not None
            self.graph.outputs.set_result(self, tensor)
            return
        assert self.model_op is not None
        old = self.model_op.inputs[index]
        if old is not tensor:
            self.graph.data.check_editable()
            self.model_op.set_input(index, tensor)
            self.graph.note_input(self.model_op, tensor, old)
            self.touch()

    def replace_node(self, new: Node) -> None:
        """Puts another node in this one's place: `graph.replace_node(self, new)`."""
        self.graph.replace_node(self, new)

    # Attributes.

    def attributes(self) -> dict[str, Any]:
        """The op's options by name, and behind them what transformations have set."""
        found: dict[str, Any] = {}
        op = self.model_op
        if op is not None and not op.is_custom:
            found = {name: get_builtin_option(op, name) for name in option_names(op)}
        return {**found, **self._custom_options(), **(self._free or {})}

    def custom_attributes(self) -> Mapping[str, Any]:
        """A custom op's options by name, as they are to be written; without what is free."""
        return dict(self._custom_options())

    def set_extracted(self, attributes: Mapping[str, Any]) -> None:
        """For extractors: what the bytes of a custom op's options say, in place of what was known.

        Lists become tuples, and arrays read-only: a change is seen where the attribute is set.
        """
        frozen = {name: _freeze(value) for name, value in attributes.items()}
        object.__setattr__(self, "_options", frozen)

    def soft_get(self, name: str, default: Any = None) -> Any:
        """An attribute; the default where there is none."""
        found = self._find(name)
        return default if found is _MISSING else found

    def has(self, name: str) -> bool:
        """Whether there is such an attribute."""
        return self._find(name) is not _MISSING

    def has_valid(self, name: str) -> bool:
        """Whether there is such an attribute, and it is not None."""
        return self.soft_get(name) is not None

    def __getitem__(self, name: str) -> Any:
        found = self._find(name)
        if found is _MISSING:
            raise self._unknown(name)
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy, pickle and others try
            raise AttributeError(name)
        found = self._find(name)
        if found is _MISSING:
            raise AttributeError(str(self._unknown(name)))
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"'{name}' of {self} cannot be set",
                hint="Create another op, and put it into this one's place: node.replace_node(new).",
            )
        if name in Node.__slots__ or isinstance(getattr(Node, name, None), property):
            object.__setattr__(self, name, value)
            return
        self.check_alive()
        op = self.model_op
        known = self._find(name)
        if type(known) is type(value) and not hasattr(value, "tolist") and known == value:
            return
        if op is not None and not op.is_custom and name in option_names(op):
            set_builtin_option(op, name, value)
        elif name in self._custom_options():
            self._custom_options()[name] = _freeze(value)
            object.__setattr__(self, "is_changed", True)
        else:
            free = {} if self._free is None else self._free
            if name not in free and op is not None and not op.is_custom:
                _check_free_name(self, name, option_names(op))
            free[name] = value
            object.__setattr__(self, "_free", free)
            if self.op_definition is not None:  # which may write it
                object.__setattr__(self, "is_changed", True)
            elif name not in _INFERS:  # nothing of the model depends on it
                return
        self.touch()

    def __repr__(self) -> str:
        return f"{self.op} '{self.name}'"

    def _find(self, name: str) -> Any:
        if name in _STANDARD:
            return getattr(self, name)
        if self._free is not None and name in self._free:
            return self._free[name]
        op = self.model_op
        if op is None:
            return _MISSING
        if op.is_custom:
            return self._custom_options().get(name, _MISSING)
        return get_builtin_option(op, name) if name in option_names(op) else _MISSING

    def _custom_options(self) -> dict[str, Any]:
        """Of a custom op, decoded when it is first asked for; of all others empty."""
        found = self._options
        if found is None:
            found = {}
            op = self.model_op
            if op is not None and op.is_custom and op.custom_options is not None:
                entries = find_flexbuffer_options(op.custom_options.view)
                found = dict(entries) if isinstance(entries, Mapping) else {}
            object.__setattr__(self, "_options", found)
        return found

    def _unknown(self, name: str) -> LiteRtError:
        names = ", ".join(self.attributes())
        hint = f"It has {names}." if names else "It has none."
        if name in NODE_NAMES:
            hint = f"That is {NODE_NAMES[name]} here."
        return LiteRtError(Status.INVALID_ARGUMENT, f"{self} has no attribute '{name}'", hint=hint)

    def _check_op(self) -> Op:
        self.check_alive()
        if self.model_op is None:
            raise LiteRtError(Status.INVALID_ARGUMENT, f"{self} is no op, which this needs")
        return self.model_op

    def _check_index(self, index: int, count: int, what: str) -> None:
        if not (isinstance(index, int) and 0 <= index < count):
            ports = "port" if count == 1 else "ports"
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{self} has no {what} port {index!r:.100}",
                hint=f"It has {count or 'no'} {what} {ports}. add_{what}_port makes one; with "
                f"{what.removesuffix('put')}_ports_count an op's class has them from the start.",
            )


def is_same_value(value: Any, other: Any) -> bool:
    """Whether two values of an attribute are equal; lists, tuples and arrays are by their elements."""
    return bool(_as_plain(value) == _as_plain(other))


def _as_plain(value: Any) -> Any:
    plain = value.tolist() if hasattr(value, "tolist") else value
    return [_as_plain(one) for one in plain] if isinstance(plain, list | tuple) else plain


def _check_free_name(node: Node, name: str, options: Iterable[str]) -> None:
    """Refuses what looks like one of an op's options with a slip, and would not be written."""
    from difflib import get_close_matches  # here, since few set such attributes

    near = get_close_matches(name, options, 1, 0.75)
    if near:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"{node} has no attribute '{name}'",
            hint=f"Did you mean '{near[0]}'? An attribute of your own needs a name that is less like it.",
        )


def _freeze(value: Any) -> Any:
    """The same value, in which nothing can be changed."""
    if isinstance(value, list):
        return tuple(_freeze(element) for element in value)
    if isinstance(value, dict):
        return MappingProxyType({key: _freeze(element) for key, element in value.items()})
    if type(value).__name__ == "ndarray":
        value = value.copy()
        value.flags.writeable = False
    return value
