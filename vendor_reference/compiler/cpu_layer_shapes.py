"""The largest shapes of what CPU layers make, as their libraries say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.cpu_library import ask_library, check_allowed
from vendor_reference.compiler.cpu_ops import make_cpu_op
from vendor_reference.compiler.shape_rules import alike_input
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.executable.cpu_op import CPU_OP, MAX_RANK, MOST_DIM, CpuOp

_REFUSALS = (Status.INVALID_ARGUMENT, Status.UNSUPPORTED)


class CpuLayerShapes:
    """What libraries have said, each once for an op."""

    def __init__(self, allow_native_assets: bool) -> None:
        """Asks nothing yet; `allow_native_assets` says whether libraries may run."""
        self._allow_native_assets = allow_native_assets
        self._known: dict[tuple[str, CpuOp], Sequence[tuple[int, ...] | str]] = {}

    def find(
        self, op: Op, layer: CustomLayer, inputs: Mapping[Tensor, Sequence[int]]
    ) -> Sequence[tuple[int, ...] | str]:
        """The largest shape of each output, or why there is none.

        Args:
          op: of a CPU layer.
          layer: for the op.
          inputs: the largest shapes of its inputs.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if the library may not run; where it crashes or hangs.
        """
        check_allowed(layer, self._allow_native_assets)
        asked = make_cpu_op(op, {t: inputs[t] for t in op.inputs if t is not None})
        key = (layer.sources[0].digest, asked)
        if key not in self._known:
            self._known[key] = self._ask(op, layer, asked, inputs)
        return self._known[key]

    @staticmethod
    def _ask(
        op: Op, layer: CustomLayer, asked: CpuOp, inputs: Mapping[Tensor, Sequence[int]]
    ) -> Sequence[tuple[int, ...] | str]:
        patterns = [list(tensor.type.shape) for tensor in op.outputs]
        request = {"op": CPU_OP.dump(asked), "outputs": patterns}
        try:
            (answer,) = ask_library(layer, "ask_shapes", request)
        except LiteRtError as error:
            if error.status not in _REFUSALS:
                raise
            return [f"by {layer.file_name} it has none: {error.what}"] * len(op.outputs)
        if answer.value is None:
            return [_alike(op, layer, index, inputs) for index in range(len(op.outputs))]
        return [
            tuple(n.integer(0, MOST_DIM) for n in shape.items(0, MAX_RANK))
            for shape in answer.items(len(op.outputs), len(op.outputs))
        ]


def _alike(
    op: Op, layer: CustomLayer, index: int, inputs: Mapping[Tensor, Sequence[int]]
) -> tuple[int, ...] | str:
    same = alike_input(op, index)
    tensor = op.inputs[same.input] if same is not None else None
    if tensor is None:
        return f"{layer.file_name} has no get_output_shapes, and no input is of its shape"
    return tuple(inputs[tensor])
