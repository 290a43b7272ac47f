"""The attributes of nodes: op, tensors, and named attributes such as `stride_w`.

Attributes are read and set by name (`node.stride_w`, `node["stride_w"]`). The attributes of a builtin op are the
fields of its options in TFLite's schema, with enums by name; setting an attribute changes the op immediately. The
attributes of a custom op come from its extractor, or are the entries of its FlexBuffer; they are written to the
model after all transformations. Transformations may also set attributes with other names; these attributes are not
written to the model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from compiler_plugin.transformations.counterparts import NODE_NAMES
from compiler_plugin.transformations.op_request import refused
from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.suggestion import did_you_mean
from litert.model.builtin_options import get_builtin_option, option_names, set_builtin_option
from litert.model.custom_options import find_flexbuffer_options
from litert.model.graph import Op, Tensor
from litert.model.raw_options import RawField

PARAMETER, CONST, VARIABLE, RESULT = "Parameter", "Const", "Variable", "Result"
"""Values of `op` for nodes that are not ops: inputs of the subgraph, constants, variables and outputs."""

ENDS = (PARAMETER, CONST, VARIABLE, RESULT)

MISSING: Any = object()
"""Stands for the value of a missing attribute."""

_INFERS = (
    "infer",
    "type_infer",
    "data_type",
)  # attributes that describe an op without a definition
_STANDARD = ("id", "name", "op", "type", "version")  # attributes that each node has


class OpDefinition(Protocol):
    """The interface of a user-defined op to its nodes; `Op` in `op.py` implements the interface."""

    attrs: dict[str, Any]
    keeps_type: bool

    @property
    def raw_options(self) -> Sequence[RawField] | None: ...
    @property
    def type(self) -> str | None: ...
    @property
    def source_file(self) -> str: ...
    def backend_attrs(self) -> Sequence[Any]: ...


class NodeAttributes:
    """The part of class `Node` that does not need the graph.

    Attributes:
      model_op: Op in the model; None for `Parameter`, `Const`, `Variable` and `Result`.
      tensor: Tensor of a `Parameter`, `Const`, `Variable` or `Result`; None for an op.
      op_definition: Definition of a user-defined op (an object of class `Op`); None for all other nodes.
      is_changed: Whether the node has attributes that are not yet written to the model.
      has_lost: Whether the model still has options that were removed from the node.
    """

    model_op: Op | None
    tensor: Tensor | None
    op_definition: OpDefinition | None
    is_changed: bool
    has_lost: bool
    _kind: str
    _free: dict[str, Any]
    _options: dict[str, Any] | None

    __slots__ = (
        "_free", "_kind", "_options", "has_lost", "is_changed", "model_op", "op_definition", "tensor",
    )  # fmt: skip

    def __init__(self, kind: str, model_op: Op | None, tensor: Tensor | None) -> None:
        keep = object.__setattr__
        keep(self, "_kind", kind)
        keep(self, "model_op", model_op)
        keep(self, "tensor", tensor)
        free: dict[str, Any] = {}
        keep(self, "_free", free)
        keep(self, "_options", None)
        keep(self, "op_definition", None)
        keep(self, "is_changed", False)
        keep(self, "has_lost", False)

    @property
    def op(self) -> str:
        """The op name: the name of a builtin operator in the schema, a custom code, or the kind of the node."""
        return self._kind if self.model_op is None else self.model_op.name

    @property
    def type(self) -> str | None:
        """The op name that is written to the file; None for an op that exists only for transformations."""
        return self.op if self.op_definition is None else self.op_definition.type

    @property
    def is_op(self) -> bool:
        """Whether the node is an op, rather than an input, constant, variable or result."""
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
        """The bytes of a custom op's options in the model; empty if there are no options."""
        blob = None if self.model_op is None else self.model_op.custom_options
        return memoryview(b"") if blob is None else blob.view

    @property
    def input_tensors(self) -> Sequence[Tensor | None]:
        """The tensors that the input ports read."""
        if self.model_op is not None:
            return self.model_op.inputs
        return [self.tensor] if self._kind == RESULT else []

    @property
    def output_tensors(self) -> Sequence[Tensor]:
        """The tensors of the output ports."""
        if self.model_op is not None:
            return self.model_op.outputs
        return [] if self.tensor is None or self._kind == RESULT else [self.tensor]

    def attributes(self) -> dict[str, Any]:
        """Returns the op's options by name, followed by the attributes that transformations have set."""
        found: dict[str, Any] = {}
        op = self.model_op
        if op is not None and not op.is_custom:
            found = {name: get_builtin_option(op, name) for name in option_names(op)}
        return {**found, **self._custom_options(), **self._free}

    def custom_attributes(self) -> Mapping[str, Any]:
        """Returns the options of a custom op that are written to the file, without other attributes."""
        return dict(self._custom_options())

    def set_extracted(self, attributes: Mapping[str, Any]) -> None:
        """Replaces the attributes of a custom op by the attributes that an extractor has read from its options.

        Lists become tuples, and arrays become read-only, so that an attribute can change only by assignment.
        """
        frozen = {name: _freeze(value) for name, value in attributes.items()}
        object.__setattr__(self, "_options", frozen)

    def soft_get(self, name: str, default: Any = None) -> Any:
        """Returns an attribute of the node; returns the default if the attribute is missing."""
        found = self._find(name)
        return default if found is MISSING else found

    def has(self, name: str) -> bool:
        """Returns whether the node has the attribute."""
        return self._find(name) is not MISSING

    def has_valid(self, name: str) -> bool:
        """Returns whether the node has the attribute with a value other than None."""
        return self.soft_get(name) is not None

    def has_and_set(self, name: str) -> bool:
        """Returns whether the node has the attribute with a true value."""
        return bool(self.soft_get(name))

    def __getitem__(self, name: str) -> Any:
        found = self._find(name)
        if found is MISSING:
            raise self._unknown(name)
        return found

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # copy, pickle and others try
            raise AttributeError(name)
        found = self._find(name)
        if found is MISSING:
            raise AttributeError(str(self._unknown(name)))
        return found

    def _set(self, name: str, value: Any) -> bool:
        """Sets an attribute; returns whether output shapes or types may depend on it."""
        op = self.model_op
        known = self._find(name)
        is_plain = type(known) is type(value) and not hasattr(value, "tolist")
        if is_plain and known == value and repr(known) == repr(value):  # 0.0 is no -0.0
            return False
        if op is not None and not op.is_custom and name in option_names(op):
            set_builtin_option(op, name, value)
            return True
        if name in self._custom_options():
            self._custom_options()[name] = _freeze(value)
            object.__setattr__(self, "is_changed", True)
            return True
        if name not in self._free and op is not None and not op.is_custom:
            _check_free_name(self, name, option_names(op))
        self._free[name] = value
        if self.op_definition is not None:  # which may write it
            object.__setattr__(self, "is_changed", True)
            return True
        return name in _INFERS

    def _delete(self, name: str) -> bool:
        """Removes an attribute; returns whether output shapes or types may depend on it."""
        if name in self._free:
            del self._free[name]
        elif name in self._custom_options():
            del self._custom_options()[name]
            object.__setattr__(self, "is_changed", True)
            object.__setattr__(self, "has_lost", True)
            return True
        elif self._find(name) is MISSING:
            raise self._unknown(name)
        else:
            raise refused(
                f"attribute '{name}' of {self} cannot be removed", "Set another value instead."
            )
        return name in _INFERS

    def _find(self, name: str) -> Any:
        if name in _STANDARD:
            return getattr(self, name)
        if name in self._free:
            return self._free[name]
        op = self.model_op
        if op is None:
            return self._find_of_end(name)
        if op.is_custom:
            return self._custom_options().get(name, MISSING)
        return get_builtin_option(op, name) if name in option_names(op) else MISSING

    def _find_of_end(self, name: str) -> Any:
        """Returns an attribute of a Parameter, Const, Variable or Result, which have no options."""
        return MISSING

    def _custom_options(self) -> dict[str, Any]:
        """The options of a custom op, decoded at the first access; empty for all other nodes."""
        found = self._options
        if found is None:
            found = {}
            op = self.model_op
            if op is not None and op.is_custom and op.custom_options is not None:
                found = dict(flexbuffer_entries(op.custom_options.view))
            object.__setattr__(self, "_options", found)
        return found

    def _unknown(self, name: str) -> LiteRtError:
        names = list(self.attributes())
        hint = f"{names_text('attribute', names)}." if names else "The node has no attributes."
        if name in NODE_NAMES:
            hint = f"Use {NODE_NAMES[name]} instead."
        return refused(f"{self} has no attribute '{name}'", hint)


def flexbuffer_entries(data: memoryview) -> Mapping[str, Any]:
    """Returns a custom op's options by name; empty if the options are not a FlexBuffer map."""
    found = find_flexbuffer_options(data)
    return found if isinstance(found, Mapping) else {}


def is_same_value(value: Any, other: Any) -> bool:
    """Returns whether two attribute values are equal; lists, tuples and arrays are compared by element."""
    return bool(_as_plain(value) == _as_plain(other))


def _as_plain(value: Any) -> Any:
    plain = value.tolist() if hasattr(value, "tolist") else value
    return [_as_plain(one) for one in plain] if isinstance(plain, list | tuple) else plain


def _check_free_name(node: NodeAttributes, name: str, options: Collection[str]) -> None:
    """Refuses a name that looks like a misspelled option of the op, because the attribute would not be written."""
    hint = did_you_mean(name, options, similarity=0.75)
    if hint:
        raise refused(
            f"{node} has no attribute '{name}'",
            f"{hint} To add an attribute of your own, choose a name that resembles no option of the op.",
        )


def _freeze(value: Any) -> Any:
    """Returns an immutable copy of a value."""
    if isinstance(value, list):
        return tuple(_freeze(element) for element in value)
    if isinstance(value, dict):
        return MappingProxyType({key: _freeze(element) for key, element in value.items()})
    if type(value).__name__ == "ndarray":
        value = value.copy()
        value.flags.writeable = False
    return value
