"""Finds the custom ops of a compiled model that nothing runs: no NPU call has them, and stock LiteRT no kernel.

Stock is asked, by preparing each alone, in a process of its own: kernels are foreign code. A program may have a
kernel of its own and register it with stock, so that such an op is no error unless the user says so.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory

from compiler_plugin.outline import extract, make_partition, model_of
from compiler_plugin.report import Report
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.dispatch_op import is_dispatch_op
from litert.model.graph import Model, Op, Subgraph
from litert.model.writer import write_model

_TIMEOUT_S = 60.0
_UNRESOLVED = "unresolved custom op"  # as stock says it

_logger = logging.getLogger(__name__)


def report_runnable(report: Report, model: Model, *, is_required: bool) -> None:
    """Says in the report which custom ops of a model with NPU calls nothing runs.

    Raises:
      LiteRtError: UNSUPPORTED, where there are any, and there must not be.
    """
    report.not_runnable = find_not_runnable(model)
    if is_required and report.not_runnable:
        raise LiteRtError(
            Status.UNSUPPORTED,
            f"neither the NPU nor stock LiteRT's CPU runs {', '.join(report.not_runnable)}",
            report.model_path,
            "Give each an asset that the NPU takes. If your program registers kernels for them, compile without "
            "--require_runnable.",
        )


def find_not_runnable(model: Model) -> Sequence[str]:
    """Names of the custom ops that stock has no kernel for; those of one name and the same types are one."""
    asked: dict[object, tuple[Subgraph, int]] = {}
    for subgraph in model.subgraphs:
        for position, op in enumerate(subgraph.ops):
            if op.is_custom and not is_dispatch_op(op):
                types = [tensor and tensor.type for tensor in (*op.inputs, *op.outputs)]
                asked.setdefault((op.name, *types), (subgraph, position))
    if not asked:
        return []
    from litert.host.child import call_in_child  # here: most models have none

    names = [subgraph.ops[position].name for subgraph, position in asked.values()]
    found: dict[str, None] = {}
    with TemporaryDirectory(prefix="litert-npu-") as folder:
        paths = [os.path.join(folder, f"{number}.tflite") for number in range(len(names))]
        for path, (subgraph, position) in zip(paths, asked.values(), strict=True):
            write_model(_alone(subgraph, position), path)
        try:
            for number in call_in_child(
                f"{__name__}:find_unresolved", paths, timeout_s=_TIMEOUT_S, subject="stock LiteRT"
            ):
                assert isinstance(number, int)
                found[names[number]] = None
        except LiteRtError as error:  # a kernel that crashes is one all the same
            _logger.info("whether stock has kernels for %s is not known: %s", names, error)
    return list(found)


def find_unresolved(paths: Sequence[str]) -> Iterator[int]:
    """Which models have an op that stock has no kernel for; called in the child process."""
    from ai_edge_litert.interpreter import Interpreter

    for number, path in enumerate(paths):
        try:
            Interpreter(path, num_threads=1).allocate_tensors()
        except (RuntimeError, ValueError) as error:
            if _UNRESOLVED in str(error):
                yield number


def _alone(subgraph: Subgraph, position: int) -> Model:
    """A model of one op, with the DEQUANTIZE ops that make constants of its inputs: its kernel may want those."""
    op = subgraph.ops[position]
    makers = {tensor.producer for tensor in op.inputs if tensor and tensor.producer}
    wanted = {op, *filter(_makes_constant, makers)}
    positions = [index for index, other in enumerate(subgraph.ops) if other in wanted]
    return model_of(extract(make_partition(op.name, subgraph, positions, set(op.outputs))))


def _makes_constant(op: Op) -> bool:
    return op.name == "DEQUANTIZE" and op.inputs[0] is not None and op.inputs[0].is_constant
