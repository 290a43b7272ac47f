"""The objects behind the handles of an exported table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatch.api import Metric
from dispatch.native.exported.host import Host
from dispatch.native.exported.model_assets import ModelAssets
from dispatch.tensor_buffer import TensorBuffer, TensorBufferRequirements
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType


@dataclass(slots=True, eq=False)
class ExportedDevice:
    """A model that is loaded on the device.

    Attributes:
      found: Assets that were found in the files of the byte code.
      takes_assets: Whether the host passes assets itself, so that no search in the model is needed.
      asset_names: Names of the assets that the vendor has received.
    """

    context: Any
    host: Host
    found: ModelAssets = field(default_factory=ModelAssets)
    takes_assets: bool = False
    asset_names: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class ExportedRegistration:
    """A tensor buffer of the host's that the device knows, the vendor's handle, and what it is attached to."""

    device: ExportedDevice
    buffer: TensorBuffer
    handle: Any
    ports: list[ExportedPort] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class ExportedPort:
    """One input or output of an NPU call.

    Attributes:
      kind: `input` or `output`.
      told: The requirements that the host has received, and the tensor type that the host asked for.
      attached: The buffer that the vendor reads or writes.
      known: The attached buffer, and buffers that were attached before and are not detached yet.
    """

    kind: str
    index: int
    call: ExportedCall
    told: tuple[TensorBufferRequirements, RankedTensorType] | None = None
    attached: ExportedRegistration | None = None
    known: list[ExportedRegistration] = field(default_factory=list)

    def forget(self, registration: ExportedRegistration) -> None:
        """Detaches a buffer."""
        self.known.remove(registration)
        registration.ports.remove(self)


@dataclass(slots=True, eq=False)
class ExportedCall:
    """One NPU call.

    Attributes:
      run: The vendor's `invoke`.
      is_ready: Whether each input and output has a buffer.
      graph: Handle of the graph that the call was made from; 0 for a call of a function.
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
                f"{kind} {index}, where there are {len(ports)}",
                f"function '{self.function_name}'",
            )
        return ports[index]

    def check_ready(self) -> None:
        """Raises an error if an input or output has no buffer."""
        missing = [
            f"{p.kind} {p.index}" for p in (*self.inputs, *self.outputs) if p.attached is None
        ]
        if missing:
            raise LiteRtError(
                Status.MISSING_INPUT_TENSOR,
                f"no buffer is attached to {', '.join(missing)}",
                f"function '{self.function_name}'",
            )
        self.is_ready = True


@dataclass(slots=True, eq=False)
class ExportedMetrics:
    """The measurements of a call; `texts` keeps the texts that C code reads alive."""

    values: Sequence[Metric]
    texts: list[object] = field(default_factory=list)
