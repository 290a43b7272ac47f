"""A function of an executable on the device, as the runtime would have it: loaded, run and measured."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from dispatch.call import Call
from dispatch.mem_buffer import MemBuffer
from dispatch.session import Session
from litert.core.environment_options import EnvironmentOptions
from litert.model.assets import Asset
from litert.model.blob import Blob
from vendor_reference.authoring.guarded_memory import GuardedMemory
from vendor_reference.dispatch import DISPATCH
from vendor_reference.executable.executable import Function

_TASK_METRIC = re.compile(r"task \d+, kernel '(.*)' of op '.*', mean_us")
_WARM_UPS = 2


@dataclass(frozen=True, slots=True)
class Timing:
    """How long runs took, in seconds; each list has a number for each run.

    Attributes:
      kernels: on the device, from start to end, by the kernel's name; what runs twice is added up.
      calls: as the caller sees them.
    """

    kernels: dict[str, list[float]]
    calls: list[float]

    def kernel_s(self, name: str) -> float:
        """The median of a kernel's times."""
        return median(self.kernels[name])

    def others_s(self, name: str) -> float:
        """The median of what all other kernels took together."""
        others = [times for kernel, times in self.kernels.items() if kernel != name]
        return median(map(sum, zip(*others, strict=True))) if others else 0.0


class LoadedCall:
    """A function that is ready to run.

    Attributes:
      inputs, outputs: its memory.
    """

    def __init__(
        self, call: Call, inputs: Sequence[GuardedMemory], outputs: Sequence[GuardedMemory]
    ) -> None:
        self._call = call
        self.inputs = inputs
        self.outputs = outputs

    def run(self) -> None:
        """Runs it once.

        Raises:
          LiteRtError: the vendor's.
        """
        self._call.invoke()

    def measure(self, repeat: int, warm_ups: int = _WARM_UPS) -> Timing:
        """Runs it so often, after a few runs that are not measured."""
        timing = Timing({}, [])
        for number in range(repeat + warm_ups):
            begin = time.perf_counter()
            self._call.invoke()
            call_s = time.perf_counter() - begin
            kernels = self._measure_kernels()
            if number >= warm_ups:
                timing.calls.append(call_s)
                for name, seconds in kernels.items():
                    timing.kernels.setdefault(name, []).append(seconds)
        return timing

    def _measure_kernels(self) -> dict[str, float]:
        self._call.start_metrics(detail=1)
        self._call.invoke()
        found: dict[str, float] = {}
        for metric in self._call.stop_metrics():
            if task := _TASK_METRIC.fullmatch(metric.name):
                found[task[1]] = found.get(task[1], 0.0) + float(metric.value) / 1e6
        return found


@contextmanager
def load_call(
    byte_code: Blob,
    function: Function,
    assets: Sequence[Asset] = (),
    allow_native_assets: bool = False,
) -> Iterator[LoadedCall]:
    """Opens the reference vendor's device with a function on it.

    Args:
      byte_code: the module that it is in.
      function: to load.
      assets: that its programs name.
      allow_native_assets: whether machine code in them may run.

    Raises:
      LiteRtError: the vendor's: there is no device, a program does not build.
    """
    companions_first = sorted(assets, key=lambda asset: not asset.companion_path)
    named = [(asset.name, MemBuffer.from_blob(asset.blob)) for asset in companions_first]
    options = {"allow_native_assets": "true"} if allow_native_assets else {}
    with Session(
        DISPATCH, environment_options=EnvironmentOptions(), options=options, assets=named
    ) as session:
        inputs = [GuardedMemory(tensor_type) for tensor_type in function.inputs]
        outputs = [GuardedMemory(tensor_type) for tensor_type in function.outputs]
        module = MemBuffer.from_blob(byte_code)
        with session.open_call(module, function.name, function.inputs, function.outputs) as call:
            for index, memory in enumerate(inputs):
                call.bind_input(index, memory.buffer)
            for index, memory in enumerate(outputs):
                call.bind_output(index, memory.buffer)
            yield LoadedCall(call, inputs, outputs)
