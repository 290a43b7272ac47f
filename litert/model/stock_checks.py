"""Checks whether a model would crash stock LiteRT's interpreter, which does not check all properties of models."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.flatbuffer import DAMAGED
from litert.model.graph import Model, Op, Subgraph, Tensor

_NEEDED_INPUTS: Mapping[str, Sequence[int]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": (0,), "BIDIRECTIONAL_SEQUENCE_RNN": (0,), "CONV_2D": (0, 1), "CONV_3D": (0, 1),
    "CONV_3D_TRANSPOSE": (0, 1, 2), "DEPTHWISE_CONV_2D": (0, 1), "FULLY_CONNECTED": (0, 1), "LSTM": (0,),
    "STABLEHLO_COMPOSITE": (), "SVDF": (0, 1, 2), "TRANSPOSE_CONV": (0, 1, 2),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (0,), "UNIDIRECTIONAL_SEQUENCE_RNN": (0,),
}  # fmt: skip
"""Builtin ops whose stock kernels handle absent inputs, with the indices of inputs for which they do not."""

_LEAST_INPUTS: Mapping[str, int] = {
    "ASSIGN_VARIABLE": 2, "BATCH_MATMUL": 2, "SLICE": 3, "SPLIT": 2, "STRIDED_SLICE": 4,
}  # fmt: skip
_WITH_OUTPUT = frozenset({"BATCH_MATMUL", "READ_VARIABLE", "SIGN", "SLICE"})
"""XNNPACK reads the tensors of ops in this and the above tables before a kernel checks the tensors' number."""


_CONDITION = "cond_subgraph_index"
_LOOP = (_CONDITION, "body_subgraph_index")
_CALLED: Mapping[str, Sequence[str]] = {
    "IF": ("then_subgraph_index", "else_subgraph_index"), "STABLEHLO_COMPOSITE": ("decomposition_subgraph_index",),
    "STABLEHLO_WHILE": _LOOP, "WHILE": _LOOP,
}  # fmt: skip
"""Fields that contain subgraph indices; stock LiteRT's kernels copy these subgraphs' tensors unchecked."""

_MOST_DIMENSIONS = 6
"""Largest rank in XNNPACK, which copies any constant new shape of RESHAPE to an array of this length."""


def check_for_stock(model: Model, where: str) -> None:
    """Refuses a model that would crash stock LiteRT's interpreter.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, with the position of the problem in the model.
    """
    check_subgraphs(model, where)
    for code in model.operator_codes:
        if code.custom_code and "\0" in code.custom_code:
            name = code.custom_code.partition("\0")[0]
            raise _damaged(f"the name of a custom op has a zero byte after '{name}'", where)
    broken = _broken_subgraphs(model)
    for subgraph_index, subgraph in enumerate(model.subgraphs):
        for index, op in enumerate(subgraph.ops):
            if what := _find_problem(op) or _find_call_problem(op, model, broken):
                raise _damaged(what, f"{where}, op {index} of subgraph {subgraph_index}")


def check_subgraphs(model: Model, where: str) -> None:
    """Refuses a model without subgraphs, which has nothing to compile, transform or run.

    Raises:
      LiteRtError: INVALID_FLATBUFFER, if the model has no subgraphs.
    """
    if not model.subgraphs:
        raise _damaged("the model has no subgraphs", where)


def _find_problem(op: Op) -> str:
    """Returns a phrase about the op's problem; "" if the op has no problem."""
    if op.is_custom:
        return ""
    name, inputs = op.name, op.inputs
    if None in inputs:
        for index in _NEEDED_INPUTS.get(name, range(len(inputs))):
            if index >= len(inputs) or inputs[index] is None:
                return f"{name} lacks input {index}"
    if len(inputs) < _LEAST_INPUTS.get(name, 0):
        return f"{name} lacks input {len(inputs)}"
    if not op.outputs and name in _WITH_OUTPUT:
        return f"{name} has no output"
    if name == "RESHAPE" and op.outputs and len(inputs) > 1 and (new := inputs[1]) is not None:
        size, rank = prod(new.shape), len(op.outputs[0].shape)
        if new.is_constant and size != rank and size > _MOST_DIMENSIONS:
            return f"RESHAPE makes {size} dimensions, but its output has {rank}"
    if name == "SPLIT":
        has_options = op.options is not None and op.options.type_name == "SplitOptions"
        count = op.options.get("num_splits") if op.options and has_options else 0
        if count != len(op.outputs):
            return f"SPLIT makes {count} parts, but has {count_text(len(op.outputs), 'output')}"
    return ""


def _find_call_problem(op: Op, model: Model, broken: Mapping[int, str]) -> str:
    """Returns a phrase about how an op mismatches a subgraph that it calls; "" if op and subgraphs match."""
    for index, operands, results in _calls(op):
        if not 0 <= index < len(model.subgraphs):
            continue  # stock LiteRT reports this itself
        called = model.subgraphs[index]
        problem = broken.get(index) or _find_mismatch(called, operands, results)
        if problem:
            return f"{op.name} calls subgraph {index}, {problem}"
    return ""


def _calls(op: Op) -> Iterator[tuple[int, Sequence[Tensor | None], Sequence[Tensor] | None]]:
    """Yields the index of each subgraph that an op calls, with the op's operands and results.

    For the condition of a loop, the results are None.
    """
    operands = op.inputs[1:] if op.name == "IF" else op.inputs
    for field in _CALLED.get(op.name, ()):
        found = [o.fields().get(field, 0) for o in (op.options, op.options_2) if o is not None]
        yield max(found, default=0), operands, None if field == _CONDITION else op.outputs


def _broken_subgraphs(model: Model) -> Mapping[int, str]:
    """Returns the problems that called subgraphs have on their own, by the index of the subgraph."""
    there = range(len(model.subgraphs))
    calls = [{i for op in s.ops for i, *_ in _calls(op) if i in there} for s in model.subgraphs]
    broken = {index: "which calls itself" for index in _on_cycles(calls)}
    for index in set().union(*calls) - set(broken):
        if problem := _find_unset(model.subgraphs[index]):
            broken[index] = problem
    return broken


def _on_cycles(calls: Sequence[Collection[int]]) -> set[int]:
    """Returns the nodes of a graph that are on a cycle of calls, or that call a node on a cycle."""
    callers: dict[int, list[int]] = {}
    for index, called in enumerate(calls):
        for other in called:
            callers.setdefault(other, []).append(index)
    left = [len(called) for called in calls]
    ready = [index for index, count in enumerate(left) if not count]
    for index in ready:
        for caller in callers.get(index, ()):
            left[caller] -= 1
            if not left[caller]:
                ready.append(caller)
    return set(range(len(calls))).difference(ready)


def _find_unset(called: Subgraph) -> str:
    inputs, made = set(called.inputs), {tensor for op in called.ops for tensor in op.outputs}
    if len(inputs) < len(called.inputs):
        return "which has the same tensor as two inputs"
    for tensor in called.inputs:
        if tensor.is_constant or tensor in made:
            return f"whose input '{tensor.name}' is also a constant or the output of an op"
    for tensor in called.outputs:
        if not (tensor.is_constant or tensor.is_variable or tensor in inputs or tensor in made):
            return f"which has an output '{tensor.name}' that no op writes"
    return ""


def _find_mismatch(
    called: Subgraph, operands: Sequence[Tensor | None], results: Sequence[Tensor] | None
) -> str:
    """Returns a phrase about how a subgraph mismatches the caller's operands or results; "" if they match."""
    counts = len(called.inputs), len(called.outputs)
    expected = len(operands), 1 if results is None else len(results)
    if counts != expected:
        return f"which has {_ports(*counts)}, but must have {_ports(*expected)}"
    if results is None and called.outputs[0].element_type is not ElementType.BOOL:
        return "whose output is not a bool"
    pairs = [*operands, *(results or ())], [*called.inputs, *called.outputs]
    for given, tensor in zip(*pairs, strict=results is not None):
        if given is not None and given.element_type is not tensor.element_type:
            types = [t.element_type.name.lower() for t in (tensor, given)]
            return (
                f"whose tensor '{tensor.name}' is {types[0]}, "
                f"but the caller's tensor '{given.name}' is {types[1]}"
            )
    return ""


def _ports(num_inputs: int, num_outputs: int) -> str:
    return f"{count_text(num_inputs, 'input')} and {count_text(num_outputs, 'output')}"


def _damaged(what: str, where: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_FLATBUFFER,
        what,
        where,
        DAMAGED,
    )
