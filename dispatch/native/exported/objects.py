"""The objects to which the handles of an exported dispatch table refer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatch.api import Metric
from dispatch.native.exported.host import Host
from dispatch.native.exported.model_assets import ModelAssets
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.counts import out_of_range
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType


@dataclass(slots=True, eq=False)
class ExportedDevice:
    """A device context, which stands for a model that is loaded on the device.

    Attributes:
      found: Assets that were found in the files that contain byte code.
      takes_assets: Whether the host itself passes assets, so that the model need not be searched for assets.
      asset_names: Names of the assets that are already registered with the vendor.
    """

    context: Any
    host: Host
    found: ModelAssets = field(default_factory=ModelAssets)
    takes_assets: bool = False
    asset_names: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class ExportedRegistration:
    """A registered tensor buffer of the host, the vendor's handle for it, and the tensors that it is bound to."""

    device: ExportedDevice
    buffer: TensorBuffer
    handle: Any
    ports: list[ExportedPort] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ExportedPort:
    """One input or output of an NPU call.

    Attributes:
      kind: `input` or `output`.
      told: The buffer requirements that the host has received, and the tensor type for which the host requested
        them.
      attached: The attached buffer, which the vendor reads or writes; None if no buffer is attached.
      known: The attached buffer, and earlier buffers that are not yet detached.
    """

    kind: str
    index: int
    call: ExportedCall
    told: tuple[TensorBufferRequirements, RankedTensorType] | None = None
    attached: ExportedRegistration | None = None
    known: list[ExportedRegistration] = field(default_factory=list)

    def forget(self, registration: ExportedRegistration) -> None:
        """Removes a buffer from the buffers of this input or output."""
        self.known.remove(registration)
        registration.ports.remove(self)


@dataclass(slots=True, eq=False)
class ExportedCall:
    """One NPU call.

    Attributes:
      run: The vendor's `invoke` for this NPU call.
      is_ready: Whether each input and output has an attached buffer.
      graph: Handle of the graph from which the NPU call was created; 0 if the NPU call runs a function.
    """

    context: Any
    device: ExportedDevice
    function_name: str
    run: Callable[[], object]
    inputs: Sequence[ExportedPort] = ()
    outputs: Sequence[ExportedPort] = ()
    is_ready: bool = False
    is_measured: bool = False
    graph: int = 0

    def port(self, kind: str, index: int) -> ExportedPort:
        ports = self.inputs if kind == "input" else self.outputs
        if not 0 <= index < len(ports):
            raise LiteRtError(
                Status.INDEX_OOB,
                out_of_range(kind, index, len(ports)),
                f"function '{self.function_name}'",
            )
        return ports[index]

    def check_ready(self) -> None:
        """Raises an error if an input or output has no attached buffer."""
        missing = [
            f"{p.kind} {p.index}" for p in (*self.inputs, *self.outputs) if p.attached is None
        ]
        if missing:
            raise LiteRtError(
                Status.MISSING_INPUT_TENSOR,
                f"no buffer is attached to {', '.join(missing)}",
                f"function '{self.function_name}'",
                "Attach a buffer to each input and output before the run.",
            )
        self.is_ready = True


@dataclass(slots=True, eq=False)
class ExportedMetrics:
    """The metrics of an NPU call; `texts` keeps the strings alive that C code reads."""

    values: Sequence[Metric]
    texts: list[object] = field(default_factory=list)
