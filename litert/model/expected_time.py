"""A vendor compiler's estimates of how long an NPU call takes, and how long the same ops take on the CPU.

A compiled file stores the estimates as JSON under the metadata key `litert_npu_expected_times`. The runtime does
not need the estimates to run the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, nullable, record
from litert.core.status import Status
from litert.model.call_metadata import WHOLE_NUMBER, CallMetadata, find_format_mistake
from litert.model.graph import Model

EXPECTED_TIMES_KEY = "litert_npu_expected_times"


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """The estimated time of one run of an NPU call, in whole nanoseconds.

    Attributes:
      ops_ns: Time that the NPU call's ops take on the NPU.
      transfers_ns: Time of data transfers to the NPU and back.
      call_ns: Overhead of the NPU call, which does not depend on its ops.
      cpu_ns: Time that the NPU call's ops would take on the CPU.
      num_unknown: Number of ops without an estimate, such as custom ops; the times do not include these ops.
    """

    ops_ns: int
    transfers_ns: int
    call_ns: int
    cpu_ns: int
    num_unknown: int = 0

    @property
    def npu_ns(self) -> int:
        """Estimated total time of the NPU call on the NPU, with transfers and overhead."""
        return self.ops_ns + self.transfers_ns + self.call_ns

    @classmethod
    def sum(cls, times: Iterable[ExpectedTime]) -> ExpectedTime:
        """Adds up the estimates for several NPU calls."""
        ops = transfers = call = cpu = num_unknown = 0
        for time in times:
            ops += time.ops_ns
            transfers += time.transfers_ns
            call += time.call_ns
            cpu += time.cpu_ns
            num_unknown += time.num_unknown
        return cls(ops, transfers, call, cpu, num_unknown)

    def __str__(self) -> str:
        some = f"{self.num_unknown} op{'s' * (self.num_unknown > 1)}"
        unknown = f"; neither time includes {some} of unknown time" if self.num_unknown else ""
        return (
            f"{self.npu_ns / 1e6:.3f} ms, with {self.transfers_ns / 1e6:.3f} ms of transfers; "
            f"{self.cpu_ns / 1e6:.3f} ms on the CPU{unknown}"
        )


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """The estimated time of an NPU call in a compiled file.

    Attributes:
      call: Name of the NPU call's function in the byte code.
      module: Index of the byte code module that contains the NPU call's function.
      time: Estimated time of one run of the NPU call.
    """

    call: str
    module: int
    time: ExpectedTime


def set_expected_times(model: Model, calls: Sequence[ExpectedCall]) -> None:
    """Stores the estimated times of NPU calls in a model; does nothing if `calls` is empty."""
    _ENTRY.write(model, calls)


def read_expected_times(model: Model, where: str = "") -> Sequence[ExpectedCall]:
    """Returns the estimated times of NPU calls from a model; raises the same errors as `CallMetadata.read`."""
    return _ENTRY.read(model, where)


def pack_time(time: ExpectedTime | None) -> object:
    """Converts an estimated time to plain data."""
    return _OPTIONAL_TIME.dump(time)


def unpack_time(packed: object) -> ExpectedTime | None:
    """Converts plain data from `pack_time` back to an estimated time."""
    return _OPTIONAL_TIME.read(
        JsonNode(packed, "$", "expected time of a call", Status.SERIALIZATION)
    )


def find_time_mistake(time: object) -> str:
    """Returns the mistake in a vendor's estimate for an NPU call; "" if the estimate has no mistake."""
    return find_format_mistake(time, ExpectedTime, _OPTIONAL_TIME)


_TIME = record(
    ExpectedTime,
    ops_ns=WHOLE_NUMBER,
    transfers_ns=WHOLE_NUMBER,
    call_ns=WHOLE_NUMBER,
    cpu_ns=WHOLE_NUMBER,
    num_unknown=WHOLE_NUMBER,
)
_OPTIONAL_TIME = nullable(_TIME)
_ENTRY = CallMetadata(
    EXPECTED_TIMES_KEY,
    record(ExpectedCall, call=ANY_TEXT, module=WHOLE_NUMBER, time=_TIME),
)
