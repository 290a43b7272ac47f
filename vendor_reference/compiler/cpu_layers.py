"""Chooses the implementations of CPU layers for the ops of partitions.

The libraries of CPU layers run in a child process, so that a crash or hang does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Subgraph, Tensor
from vendor_reference.compiler.cpu_library import (
    CpuLayerShapes,
    ask_library,
    make_cpu_op,
    where_of,
)
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.largest_shapes import find_bounds
from vendor_reference.compiler.overriding import find_layer
from vendor_reference.compiler.shape_rules import alike_input
from vendor_reference.cpu_layer.asking import check_allowed
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerType
from vendor_reference.custom_layers.kernel_spec import CpuKernel
from vendor_reference.executable.cpu_op import CPU_CONFIG, CPU_OP, check_config


def choose_cpu_layers(
    job: Job, partitions: Sequence[Subgraph], notes: list[str]
) -> Mapping[Op, CpuKernel]:
    """Chooses the implementation and configuration of each op that has a CPU layer and bounds for its shapes.

    Each choice adds a sentence for the report to `notes`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if the user has not allowed libraries to run; UNSUPPORTED, if a library
        does not support an op; other statuses, with file and reason, for other problems, for example if the
        library crashes or hangs.
    """
    ops: dict[str, list[Op]] = {}
    shapes: dict[Tensor, tuple[int, ...]] = {}
    cpu_shapes = CpuLayerShapes(job.allow_native_assets)
    for partition in partitions:
        found = [op for op in partition.ops if _is_cpu_layer(op, job.layers)]
        if found:
            shapes.update(find_bounds(partition, job.bounds, job.layers, cpu_shapes).shapes)
        for op in found:
            if all(t is None or t in shapes for t in (*op.inputs, *op.outputs)):
                ops.setdefault(op.name, []).append(op)
    kernels: dict[Op, CpuKernel] = {}
    chosen: list[str] = []
    for name, asked in ops.items():
        check_allowed(job.allow_native_assets, where_of(job.layers[name]))
        kernels.update(_ask(job.layers[name], asked, shapes, chosen))
    notes += dict.fromkeys(chosen)
    return kernels


def _is_cpu_layer(op: Op, layers: Mapping[str, CustomLayer]) -> bool:
    layer = find_layer(op, layers)
    return layer is not None and layer.type is LayerType.CPP


def _ask(
    layer: CustomLayer,
    ops: Sequence[Op],
    shapes: Mapping[Tensor, tuple[int, ...]],
    notes: list[str],
) -> Mapping[Op, CpuKernel]:
    asked = [make_cpu_op(op, shapes) for op in ops]
    places = {op: index for index, op in enumerate(ops)}
    request = {
        "ops": [CPU_OP.dump(op) for op in asked],
        "producers": [list(_producers(op, places)) for op in ops],
        "patterns": [_patterns(op) for op in ops],
    }
    answers = list(ask_library(layer, "ask", request))
    about = answers[0].fields(("library", "layer_types", "layer_type"))
    layer_type = about["layer_type"].text()
    found: dict[Op, CpuKernel] = {}
    for op, cpu_op, answer in zip(ops, asked, answers[1:], strict=True):
        fields = answer.fields(("implementation", "name", "config", "reorders", "says_shapes"))
        named = replace(cpu_op, layer_type=layer_type)
        config = CPU_CONFIG.read(fields["config"])
        check_config(fields["config"], config, named)
        found[op] = CpuKernel(
            named,
            fields["implementation"].integer(0, 2**31 - 1),
            config,
            _asked_shapes(op, layer, fields["says_shapes"].boolean()),
        )
        reorders = fields["reorders"].integer(0, len(op.inputs) + len(op.outputs))
        cost = f"; {reorders} of the op's tensors are reordered" if reorders else ""
        notes.append(
            f"{op.name} runs as machine code on the host: '{fields['name'].text()}' of "
            f"{about['library'].text()}{cost}"
        )
    return found


def _patterns(op: Op) -> Mapping[str, object]:
    """Returns the shapes of an op in the model."""
    return {
        "inputs": [None if t is None else list(t.type.shape) for t in op.inputs],
        "outputs": [list(t.type.shape) for t in op.outputs],
    }


def _asked_shapes(op: Op, layer: CustomLayer, says_shapes: bool) -> tuple[tuple[int, ...], ...]:
    """Returns the shape patterns of outputs if each run asks the library for their shapes.

    Otherwise an empty tuple.
    """
    is_open = [not tensor.type.layout.is_static for tensor in op.outputs]
    if says_shapes:
        return tuple(tuple(t.type.shape) for t in op.outputs) if any(is_open) else ()
    for index, tensor in enumerate(op.outputs):
        if is_open[index] and alike_input(op, index) is None:
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"output {index} is {tensor.type}, but the library has no get_output_shapes to "
                "find its shape",
                f"{layer.file_name}, op '{op.name}'",
                "Add get_output_shapes to the library, or convert the model with fixed shapes.",
            )
    return ()


def _producers(op: Op, places: Mapping[Op, int]) -> Iterator[Sequence[int] | None]:
    """Yields for each input the op of the same library that makes it, and the index of that op's output."""
    for tensor in op.inputs:
        producer = tensor.producer if tensor is not None else None
        if tensor is None or producer is None or producer not in places:
            yield None
        else:
            yield [places[producer], list(producer.outputs).index(tensor)]
