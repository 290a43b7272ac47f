"""`litert-npu tune`: measures block and vector sizes for the firmware on this device, and stores the fastest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from litert.core.errors import file_error
from litert.core.option import Flag

from .command import Command
from .command_line import REPORT, FlagValues
from .console import PrintedReport
from .progress_bar import ProgressBar

if TYPE_CHECKING:
    from vendor_reference.authoring.firmware_tune import TriedTuning


@dataclass(frozen=True, slots=True)
class TuningReport(PrintedReport):
    """The sizes that the firmware uses on this device.

    Attributes:
      device: Name of the measured device.
      width: Number of floats in a vector.
      rows: Number of rows of a matrix product that one worker computes at once.
      unit_operations: Minimum number of operations in a unit of work.
      is_kept: Whether the cache stores measured sizes for this device; without measured sizes, the device uses the
        default sizes.
      tried: All measured sizes; the default sizes come first.
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
            yield "vector  rows  unit of work  ratio to the default time"
        for one in self.tried:
            numbers = f"{one.width:6}  {one.rows:4}  {one.unit_operations:12}"
            yield f"{numbers}  {one.relative:.2f}  {one.problem}".rstrip()
        chosen = f"vectors of {self.width}, {self.rows} rows, units of {self.unit_operations}"
        stays = (
            "The default sizes stay in use: no other sizes are clearly faster"
            if self.tried
            else "The default sizes are in use again"
        )
        yield f"{'Stored for later runs' if self.is_kept else stays}: {chosen}."


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
        hint = "Set the environment variable LITERT_NPU_CACHE_DIR to a writable folder."
        what = "cannot store the fastest sizes"
        raise file_error(error, what, str(error.filename or ""), hint) from error
    numbers = tuning.width, tuning.rows, tuning.unit_operations
    TuningReport(str(device.info), *numbers, is_kept, tried).show(flags.report)
    return 0


COMMAND = Command(
    "\nMeasures the kernels of builtin ops on this device, with different settings, which are "
    "the sizes of vectors, of blocks and of units of work. If other sizes are clearly faster "
    "than the default sizes, the command stores the faster sizes in the cache. Later runs with "
    "the same device and driver version use the stored sizes.",
    (
        Flag(
            "reset",
            False,
            ("Delete the measured sizes and use the default sizes again, without a measurement."),
        ),
        REPORT,
    ),
    _run,
)
