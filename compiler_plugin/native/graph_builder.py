"""Records the graph edits that a plugin's pattern makes, and applies them if the pattern matches.

As in stock LiteRT, the new ops are inserted at the position of the first erased op, in the order in which they
were built, and unused objects are removed. Edits are refused if they would leave a tensor that is read but that no
op writes, or a tensor that two ops write.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.dependencies import find_execution_order
from compiler_plugin.leftovers import (
    drop_dead,
    find_results,
    move_control_dependencies,
    tensors_of,
)
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import EXTERNAL_SIZE, Buffer, Model, Op, OperatorCode, Subgraph, Tensor


class BuiltOp(Op):
    """An op that a pattern has built; until the edits are applied, the op is not connected to its tensors."""

    __slots__ = ("planned_inputs", "planned_outputs")

    def __init__(self, code: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        super().__init__(OperatorCode(code), (), ())
        self.planned_inputs = inputs
        self.planned_outputs = outputs

    @property
    def inputs(self) -> Sequence[Tensor | None]:
        return self.planned_inputs

    @property
    def outputs(self) -> Sequence[Tensor]:
        return self.planned_outputs

    def settle(self, code: OperatorCode) -> Op:
        """Returns the op for the graph, connected to its tensors."""
        op = Op(code, self.planned_inputs, self.planned_outputs, self.options)
        op.options_2 = self.options_2
        return op


class GraphBuilder:
    """The edits that one pattern makes at one op; a plugin gets this object as a `LiteRtBuilder`.

    Attributes:
      tensors, ops: New tensors and ops, in the order in which they were built.
      erased: Ops to remove from the subgraph.
    """

    def __init__(self, model: Model, subgraph: Subgraph) -> None:
        self._model = model
        self._subgraph = subgraph
        self.tensors: dict[Tensor, None] = {}
        self.ops: dict[BuiltOp, None] = {}
        self.erased: dict[Op, None] = {}
        self._data: dict[Tensor, Buffer] = {}  # new data of tensors that erased ops write

    @property
    def is_used(self) -> bool:
        """Whether the builder has recorded any edit."""
        return bool(self.tensors or self.ops or self.erased or self._data)

    def add_tensor(self, tensor: Tensor) -> None:
        """Adds a new tensor, whose buffer belongs to another tensor or is the model's empty buffer."""
        self.tensors[tensor] = None

    @property
    def empty_buffer(self) -> Buffer:
        """The model's empty buffer, which all tensors without data use."""
        if not self._model.buffers:
            self._model.buffers.append(Buffer())
        return self._model.buffers[0]

    def set_data(self, tensor: Tensor, data: bytes) -> Buffer:
        """Sets the constant data of a new tensor, or of the output of an op that the pattern erases."""
        buffer = Buffer(Blob(data), is_external=len(data) >= EXTERNAL_SIZE)
        if tensor in self.tensors:
            tensor.buffer = buffer
        elif tensor.producer is not None and tensor.producer in self._subgraph.ops:
            self._data[tensor] = buffer
        else:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the plugin's transformation sets data of tensor '{tensor.name}', but the tensor is neither new "
                "nor an op's output in this subgraph",
                hint=VENDOR_REPAIRS,
            )
        return buffer

    def add_op(self, code: int, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> BuiltOp:
        """Adds a new op without options."""
        op = BuiltOp(code, inputs, outputs)
        self.ops[op] = None
        for output in outputs:
            if output in self.tensors:
                output.producer = op
        return op

    def erase(self, op: Op) -> None:
        """Marks an op of the subgraph for removal."""
        if op not in self._subgraph.ops:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the plugin's transformation erases op {op.name}, which is not in the subgraph",
                hint=VENDOR_REPAIRS,
            )
        self.erased[op] = None

    def apply(self) -> None:
        """Applies the recorded edits, or raises INVALID_GRAPH_INVARIANT if the edits would break the graph."""
        self._check()
        model, subgraph = self._model, self._subgraph
        old_order = {op: index for index, op in enumerate(subgraph.ops)}
        place = min((old_order[op] for op in self.erased), default=len(subgraph.ops))
        touched = tensors_of(self.erased)
        for op in self.erased:
            op.release()
        for tensor, buffer in self._data.items():
            tensor.buffer = buffer
            model.buffers.append(buffer)
        new_ops = [built.settle(model.operator_code(built.code.builtin_code)) for built in self.ops]
        kept = [op for op in subgraph.ops[place:] if op not in self.erased]
        subgraph.ops = order_ops([*subgraph.ops[:place], *new_ops, *kept])
        used = [t for t in self.tensors if t.producer is not None or t.readers]
        subgraph.tensors += used
        known = set(model.buffers)
        model.buffers += dict.fromkeys(t.buffer for t in used if t.buffer not in known)
        places = {old_order[op]: new for new, op in enumerate(subgraph.ops) if op in old_order}
        move_control_dependencies(model, {subgraph: places})
        drop_dead(model, subgraph, touched, self.erased)

    def _check(self) -> None:
        """Checks that one op writes each tensor that is read, unless the tensor is an input or a constant."""
        writers: dict[Tensor, Op] = {}
        for built in self.ops:
            for tensor in built.planned_outputs:
                old = tensor.producer
                is_taken = old is not None and old is not built and old not in self.erased
                if tensor in writers or is_taken:
                    raise _broken(f"two ops would write tensor '{tensor.name}'")
                if tensor.is_constant or tensor in self._subgraph.inputs:
                    raise _broken(
                        f"op {built.name} would write tensor '{tensor.name}', which is a constant or an input of "
                        "the subgraph"
                    )
                writers[tensor] = built
        lost = [t for op in self.erased for t in op.outputs if t not in writers]
        read = {t for built in self.ops for t in built.planned_inputs}
        results = find_results(self._model, self._subgraph)
        for tensor in lost:
            is_read = tensor in read or any(op not in self.erased for op in tensor.readers)
            if (is_read or tensor in results) and tensor not in self._data:
                raise _broken(
                    f"no op would write tensor '{tensor.name}', which is still in use, because the "
                    "transformation erases the op that writes the tensor"
                )
        for tensor in self._data:
            if tensor.producer not in self.erased or tensor in writers:
                raise _broken(
                    f"the transformation makes tensor '{tensor.name}' a constant, but an op would also write the "
                    "tensor"
                )
        given = {*self._subgraph.tensors}
        for tensor in read:
            is_new = tensor in self.tensors and (tensor in writers or tensor.is_constant)
            if tensor not in given and not is_new:
                raise _broken(
                    f"a new op reads tensor '{tensor.name}', but no op would write the tensor"
                )


def _broken(what: str) -> LiteRtError:
    what = f"the plugin's transformation would break the graph: {what}"
    return LiteRtError(Status.INVALID_GRAPH_INVARIANT, what, hint=VENDOR_REPAIRS)


def order_ops(ops: Sequence[Op]) -> list[Op]:
    """Returns the ops in a valid execution order; an op moves only if another op needs its result earlier."""
    position = {op: index for index, op in enumerate(ops)}
    dependencies = [
        [
            position[tensor.producer]
            for tensor in op.inputs
            if tensor is not None and tensor.producer in position
        ]
        for op in ops
    ]
    if all(before < index for index, some in enumerate(dependencies) for before in some):
        return list(ops)
    ordered = [ops[index] for index in find_execution_order(dependencies, ())]
    place = {op: index for index, op in enumerate(ordered)}
    for op in ordered:
        for tensor in op.inputs:
            producer = None if tensor is None else tensor.producer
            if producer in place and place[producer] >= place[op]:
                raise _broken(f"op {op.name} would depend on its own output")
    return ordered
