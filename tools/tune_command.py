"""`litert-npu tune`: measures the firmware's block and vector sizes on this device, and keeps the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status

from .command import Command
from .command_line import REPORT, FlagValues
from .console import PrintedReport
from .progress_bar import ProgressBar

if TYPE_CHECKING:
    from vendor_reference.authoring.firmware_tune import TriedTuning


@dataclass(frozen=True, slots=True)
class TuningReport(PrintedReport):
    """What the firmware is built with on this device.

    Attributes:
      device: that was measured.
      width: floats in a vector.
      rows: rows of a product that a worker makes at once.
      unit_operations: the least work that workers share out at once.
      is_kept: whether a measurement is kept for this device; else it is the default.
      tried: all that was measured, the default first.
    """

    device: str
    width: int
    rows: int
    unit_operations: int
    is_kept: bool
    tried: Sequence[TriedTuning]

    def lines(self) -> Iterator[str]:
        yield self.device
        if self.tried:
            yield "vector  rows  unit of work  time to the default"
        for one in self.tried:
            numbers = f"{one.width:6}  {one.rows:4}  {one.unit_operations:12}"
            yield f"{numbers}  {one.relative:.2f}  {one.problem}".rstrip()
        chosen = f"vectors of {self.width}, {self.rows} rows, units of {self.unit_operations}"
        stays = (
            "The default stays: nothing is clearly better"
            if self.tried
            else "The default is used again"
        )
        yield f"{'Kept for the runs to come' if self.is_kept else stays}: {chosen}."


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    from vendor_reference.authoring.firmware_tune import tune_firmware
    from vendor_reference.device.firmware_choice import forget_tuning, keep_tuning
    from vendor_reference.device.opencl_device import shared_device

    with ProgressBar():
        device = shared_device("")
        tuning, tried = (device.default_tuning, []) if flags.reset else tune_firmware(device)
    is_kept = tuning != device.default_tuning
    try:
        keep_tuning(device.info, tuning) if is_kept else forget_tuning(device.info)
    except OSError as error:
        what = f"the choice cannot be kept: {error.strerror}"
        hint = "Name a folder that can be written in LITERT_NPU_CACHE_DIR."
        raise LiteRtError(Status.FILE_IO, what, error.filename or "", hint) from error
    numbers = tuning.width, tuning.rows, tuning.unit_operations
    TuningReport(str(device.info), *numbers, is_kept, tried).show(flags.report)
    return 0


COMMAND = Command(
    "\nMeasures standard layers of the builtin ops' library on this device, with different sizes of vectors,\n"
    "blocks and units of work. If other sizes are clearly faster than the default, the cache keeps them, and\n"
    "later runs on this device, with this version of its driver, use them.",
    (
        Flag("reset", False, "Measures nothing, and goes back to the default."),
        REPORT,
    ),
    _run,
)
