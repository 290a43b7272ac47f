"""Copies partitions into separate subgraphs, and replaces each partition by one `DISPATCH_OP`.

The model stays unchanged until the vendor has compiled the copies of its partitions. Then all partitions of a
subgraph are replaced at once.
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
from litert.core.errors import VENDOR_REPAIRS, LiteRtError
from litert.core.status import Status
from litert.model.dispatch_op import DISPATCH_OP
from litert.model.graph import CUSTOM, Buffer, Model, Op, OperatorCode, Subgraph, Tensor
from litert.model.manifest import ShapeOutput


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """A group of ops of one subgraph that becomes one NPU call.

    Attributes:
      name: Name of the partition, unique in the model.
      subgraph: Subgraph that contains the ops.
      positions: Positions of the ops in the subgraph, ascending.
      ops: Ops of the partition, in the order of their positions.
      inputs: Tensors that the NPU call reads, without duplicates and constants: first the subgraph's own inputs in
        their order, then other tensors in the order of first use, as in stock LiteRT.
      outputs: Tensors that ops of the partition write and that are read outside the partition, in the order in
        which they are written. If there are no such tensors, the outputs are the tensors that no op reads.
      body: If the partition's only op is a composite op, the decomposition to compile in its place; otherwise
        None.
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
    """Makes a partition of some ops, and finds the partition's inputs and outputs.

    Args:
      name: Name of the partition.
      subgraph: Subgraph that contains the ops.
      positions: Positions of the ops, ascending.
      results: Outputs of the subgraph and of its signatures, from `leftovers.find_results`.
      body: Decomposition to compile in place of the partition's only op; None for no decomposition.
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
    if not outputs:  # an NPU call needs an output, and the CPU may not be able to run the ops
        outputs = {tensor: None for op in ops for tensor in op.outputs if not tensor.uses}
    return Partition(name, subgraph, positions, ops, list(inputs), list(outputs), body)


def extract(partitions: Sequence[Partition], *, share_buffers: bool = False) -> list[Subgraph]:
    """Copies partitions into new subgraphs, with their ops and the tensors of these ops.

    Args:
      partitions: Partitions to copy; if two tensors share a buffer, their copies share a buffer too.
      share_buffers: Whether the copies use the model's buffers and operator codes, so that they can be added to
        the model; if False, a vendor may change the copies freely.
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
    """Makes a model from extracted partitions, with the operator codes and buffers that the partitions use."""
    tensors = [tensor for subgraph in subgraphs for tensor in subgraph.tensors]
    codes = dict.fromkeys(op.code for subgraph in subgraphs for op in subgraph.ops)
    buffers = dict.fromkeys(tensor.buffer for tensor in tensors if tensor.is_constant)
    return Model(list(subgraphs), operator_codes=list(codes), buffers=[Buffer(), *buffers])


def replace_partitions(
    model: Model, subgraphs: Sequence[tuple[Sequence[Sequence[int]], Sequence[Partition]]]
) -> list[list[Op]]:
    """Replaces each partition by a `DISPATCH_OP`, and removes objects that become unused.

    Tensors, buffers and operator codes that only the replaced ops used are removed. Objects that were unused
    before the replacement stay.

    Args:
      model: Model to change.
      subgraphs: For each subgraph with partitions, the dependencies of its ops, and its partitions; each op is in
        at most one partition.

    Returns:
      The dispatch ops, without options, in the order of the partitions.
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
    # One call for all, because each call searches the whole model.
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
    """Replaces a subgraph's partitions by NPU calls; returns the new positions of ops by their old positions."""
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
    """For each chosen output of an NPU call, appends an int32 output of shape `[rank]` to the call.

    Args:
      model: Model that contains the call.
      subgraph: Subgraph that contains the call.
      call: Dispatch op of the call.
      function_name: Name of the call's function in the byte code.
      outputs: Indices of the call's outputs for which a shape output is appended.

    Returns:
      A `ShapeOutput` for each new output, with the function's name and the index of the output whose shape the new
      output holds.
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
    """Raises an error if two NPU calls have the same function name but different outputs of dynamic shape.

    Args:
      functions: For each NPU call, the function name and the shape outputs.
      where: Where the error occurred, for the error message.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if there are two such calls, because the manifest can describe only one list
        of outputs for each function name.
    """
    seen: dict[str, Sequence[ShapeOutput]] = {}
    for name, outputs in functions:
        if seen.setdefault(name, outputs) != outputs:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"two NPU calls have the function name '{name}', but different outputs with a "
                "dynamic shape",
                where,
                f"{VENDOR_REPAIRS} The plugin must give each NPU call a unique function name, such as the "
                "name of its partition.",
            )
