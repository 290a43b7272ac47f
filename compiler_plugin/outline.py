"""A partition becomes a subgraph of its own, and one `DISPATCH_OP` in its place.

Extracting copies: the model stays as it is until the vendor has compiled the copy. Replacing changes the model,
once for all partitions of a subgraph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler_plugin.composites import copy_decomposition
from compiler_plugin.dependencies import find_execution_order
from compiler_plugin.graph_copy import CopiedData, copy_ops
from compiler_plugin.leftovers import (
    drop_buffers,
    drop_operator_codes,
    find_dead_tensors,
    move_control_dependencies,
    tensors_of,
)
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import CUSTOM, Buffer, Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.manifest import ShapeOutput


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Ops of one subgraph that are to become one NPU call.

    Attributes:
      name: of the partition, unique in the model.
      subgraph: that the ops are in.
      positions: of the ops in it, ascending.
      ops: at these positions.
      inputs: what the call reads, none twice, no constants: the subgraph's own inputs, in their order, and then
        others in the order of first use, as in stock.
      outputs: what is read elsewhere, in the order in which it is written; where nothing is, what nobody reads.
      body: the decomposition that stands for its one op, a composite; None for all others.
    """

    name: str
    subgraph: Subgraph
    positions: Sequence[int]
    ops: Sequence[Op]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    body: Subgraph | None = None


def make_partition(
    name: str,
    subgraph: Subgraph,
    positions: Sequence[int],
    results: set[Tensor],
    body: Subgraph | None = None,
) -> Partition:
    """Finds what a partition reads and what others read of it.

    Args:
      name: of the partition.
      subgraph: that its ops are in.
      positions: of the ops, ascending.
      results: of the subgraph, from `leftovers.find_results`.
      body: of the partition.
    """
    ops = [subgraph.ops[position] for position in positions]
    own = set(ops)
    read = {
        tensor: None
        for op in ops
        for tensor in op.inputs
        if tensor is not None and not tensor.is_constant and tensor.producer not in own
    }
    inputs = dict.fromkeys((*(t for t in subgraph.inputs if t in read), *read))
    outputs = {
        tensor: None
        for op in ops
        for tensor in op.outputs
        if tensor in results or not own.issuperset(tensor.uses)
    }
    if not outputs:  # a call must have some, and its ops may be none that the CPU could run
        outputs = {tensor: None for op in ops for tensor in op.outputs if not tensor.uses}
    return Partition(name, subgraph, positions, ops, list(inputs), list(outputs), body)


def extract(partitions: Sequence[Partition], *, share_buffers: bool = False) -> list[Subgraph]:
    """Copies of partitions as subgraphs: their ops, and the tensors that they have.

    Args:
      partitions: to copy; where tensors of any two have one buffer, their copies have one too.
      share_buffers: whether the copies have the model's own buffers and operator codes, so that they can be put
        into the model. Otherwise a vendor may change them as it likes.
    """
    data = None if share_buffers else CopiedData()
    copies = []
    for partition in partitions:
        ends = partition.inputs, partition.ops, partition.outputs
        subgraph = copy_ops(partition.name, *ends, data)
        if partition.body is not None:
            (composite,) = subgraph.ops
            composite.release()
            subgraph.ops = copy_decomposition(subgraph, composite, partition.body, data=data)
        copies.append(subgraph)
    return copies


def model_of(*subgraphs: Subgraph) -> Model:
    """Makes a model that holds these extracted partitions, with the operator codes and buffers that they use."""
    tensors = [tensor for subgraph in subgraphs for tensor in subgraph.tensors]
    codes = dict.fromkeys(op.code for subgraph in subgraphs for op in subgraph.ops)
    buffers = dict.fromkeys(tensor.buffer for tensor in tensors if tensor.is_constant)
    return Model(list(subgraphs), operator_codes=list(codes), buffers=[Buffer(), *buffers])


def replace_partitions(
    model: Model, subgraphs: Sequence[tuple[Sequence[Sequence[int]], Sequence[Partition]]]
) -> list[list[Op]]:
    """Puts a `DISPATCH_OP` in the place of each partition, and drops what is dead.

    What only the replaced ops used is dropped: tensors, their buffers, operator codes. What nothing used
    before stays.

    Args:
      model: to change.
      subgraphs: of each that has any: the dependencies of its ops, and partitions, which do not overlap.

    Returns:
      The dispatch ops, without options, in the partitions' order.
    """
    calls: list[list[Op]] = []
    dead: set[Tensor] = set()
    replaced: list[Op] = []
    places: dict[Subgraph, Mapping[int, int]] = {}
    for dependencies, partitions in subgraphs:
        if not partitions:
            calls.append([])
            continue
        subgraph = partitions[0].subgraph
        old = [op for partition in partitions for op in partition.ops]
        touched = tensors_of(old)
        for op in old:
            op.release()
        calls.append([Op(_dispatch_code(model), p.inputs, p.outputs) for p in partitions])
        places[subgraph] = _put_calls(subgraph, dependencies, partitions, calls[-1])
        gone = find_dead_tensors(model, subgraph, touched)
        subgraph.remove_tensors(gone)
        dead |= gone
        replaced += old
    # Once for all: each looks at the whole model.
    move_control_dependencies(model, places)
    drop_buffers(model, {tensor.buffer for tensor in dead})
    drop_operator_codes(model, {op.code for op in replaced})
    return calls


def _put_calls(
    subgraph: Subgraph,
    dependencies: Sequence[Sequence[int]],
    partitions: Sequence[Partition],
    calls: Sequence[Op],
) -> dict[int, int]:
    """Puts calls in the places of a subgraph's partitions; new positions by old ones."""
    order = find_execution_order(dependencies, [p.positions for p in partitions])
    subgraph.ops = [subgraph.ops[place] if place >= 0 else calls[~place] for place in order]
    places = {old: new for new, old in enumerate(order)}
    for number, partition in enumerate(partitions):
        places.update(dict.fromkeys(partition.positions, places[~number]))
    return places


def _dispatch_code(model: Model) -> OperatorCode:
    for code in model.operator_codes:
        if code.builtin_code == CUSTOM and code.custom_code == DISPATCH_OP:
            return code
    code = OperatorCode(CUSTOM, DISPATCH_OP)
    model.operator_codes.append(code)
    return code


def add_shape_outputs(
    model: Model, subgraph: Subgraph, call: Op, function_name: str, outputs: Sequence[int]
) -> list[ShapeOutput]:
    """Appends an int32 output of shape `[rank]` to an NPU call for each of its outputs that is named.

    Args:
      model: that the call is in.
      subgraph: that the call is in.
      call: the dispatch op.
      function_name: of the call.
      outputs: indices of the call's outputs.

    Returns:
      Which output has the shape of which.
    """
    added = []
    for index in outputs:
        of = call.outputs[index]
        shape = Tensor(f"{of.name}/shape", ElementType.INT32, (len(of.shape),), model.buffers[0])
        subgraph.tensors.append(shape)
        added.append(ShapeOutput(function_name, index, len(call.outputs)))
        call.append_output(shape)
    return added


def check_function_names(
    functions: Sequence[tuple[str, Sequence[ShapeOutput]]], where: str
) -> None:
    """Refuses calls of one name of which a manifest could not say what their outputs are.

    Args:
      functions: the name and shape outputs of each call.
      where: the vendor's call, for the error.

    Raises:
      LiteRtError: INVALID_ARGUMENT.
    """
    seen: dict[str, Sequence[ShapeOutput]] = {}
    for name, outputs in functions:
        if seen.setdefault(name, outputs) != outputs:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"two calls are named '{name}', and differ in their outputs of dynamic shape",
                where,
                "Name each function for itself, as by its partition.",
            )
