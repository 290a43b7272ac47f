"""Data nodes as in the Model Optimizer: after the front phase, `in_node` and `out_node` return tensors as nodes.

    node.in_node(0).shape  # node.in_port(0).data.get_shape(), as an array

New code should use ports instead of data nodes, because ports work in the same way in all phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from compiler_plugin.transformations.op_request import refused
from litert.core.counts import index_range, names_text
from litert.core.errors import LiteRtError

if TYPE_CHECKING:
    from litert.model.tensor_data import Array

_ATTRIBUTES = ("id", "kind", "name", "shape", "value")


class _Data(Protocol):
    """The methods of `PortData` in `node.py`. This file cannot import `node.py`, which imports this file."""

    def get_shape(self) -> tuple[int, ...] | None: ...
    def set_shape(self, shape: Sequence[int]) -> None: ...
    def get_value(self) -> Array | None: ...
    def set_value(self, value: Any) -> None: ...


class _Port(Protocol):
    """The attribute of `OutPort` in `node.py` that this file uses."""

    node: Any

    @property
    def name(self) -> str: ...
    @property
    def data(self) -> _Data: ...
    def get_destinations(self) -> Sequence[Any]: ...


class DataNode:
    """A data node: the tensor of an output port as a node.

    Attributes:
      port: Output port that stands for the tensor.
    """

    kind = "data"

    def __init__(self, port: _Port) -> None:
        self.port = port

    @property
    def id(self) -> str:
        """The name of the tensor."""
        return self.port.name

    name = id

    @property
    def shape(self) -> Any:
        """The tensor's shape as an array; None if the shape is not known."""
        return shape_array(self.port.data)

    @shape.setter
    def shape(self, shape: Any) -> None:
        self.port.data.set_shape(shape)

    @property
    def value(self) -> Any:
        """The tensor's value as an array, if the value depends only on constants; otherwise None."""
        return self.port.data.get_value()

    @value.setter
    def value(self, value: Any) -> None:
        self.port.data.set_value(value)

    def has_valid(self, name: str) -> bool:
        """Returns whether the tensor has an attribute with this name that is not None."""
        return self.soft_get(name, None) is not None

    def soft_get(self, name: str, default: Any = "<UNKNOWN>") -> Any:
        """Returns an attribute of the tensor; returns `default` if the attribute is missing."""
        return getattr(self, name) if name in _ATTRIBUTES else default

    def __getitem__(self, name: str) -> Any:
        if name not in _ATTRIBUTES:
            raise refused(
                f"{self} has no attribute '{name}'", f"{names_text('attribute', _ATTRIBUTES)}."
            )
        return getattr(self, name)

    def in_nodes(self) -> dict[int, Any]:
        """Returns a dictionary that contains, under the key 0, the op that writes the tensor."""
        return {0: self.port.node}

    def in_node(self, index: int = 0) -> Any:
        """Returns the op that writes the tensor."""
        return self._pick(self.in_nodes(), index, "in_node")

    def out_nodes(self) -> dict[int, Any]:
        """Returns a dictionary of the ops and results that read the tensor; the keys are numbers from 0."""
        return dict(enumerate(reader.node for reader in self.port.get_destinations()))

    def out_node(self, index: int = 0) -> Any:
        """Returns the op or result with the given number among the readers of the tensor."""
        return self._pick(self.out_nodes(), index, "out_node")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataNode) and self.port == other.port

    def __hash__(self) -> int:
        return hash(self.port)

    def __repr__(self) -> str:
        return f"data node '{self.name}'"

    def _pick(self, nodes: dict[int, Any], index: int, what: str) -> Any:
        if index not in nodes:
            raise refused(
                f"{what}({index!r:.100}) does not exist for {self}: {index_range(what, len(nodes))}"
            )
        return nodes[index]


def shape_array(data: _Data) -> Array | None:
    """Converts a shape to an array, which Model Optimizer code can index by lists; None stays None."""
    import numpy as np  # here: most transformations need none

    shape = data.get_shape()
    return None if shape is None else np.array(shape, np.int64)


def several_readers(port: _Port) -> LiteRtError:
    """Returns an error for `out_node` if a port does not have exactly one reader."""
    count = len(port.get_destinations())
    return refused(
        f"out_node() needs exactly one reader, but {port} has {count or 'no'} readers",
        "Call node.out_port(i).get_destinations() instead, and use the nodes of the returned ports.",
    )
