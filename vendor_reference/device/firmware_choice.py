"""Chooses the firmware's tuning for a device: the best tuning that `litert-npu tune` found, or a default."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import replace

from litert.core.checked_json import JsonNode
from litert.core.codec import integer, record
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cache import cache_folder, keep_file, read_file
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import driver_of_device
from vendor_reference.firmware.program import NARROW, ROWS, FirmwareTuning

_LOG = logging.getLogger(__name__)

_PART = "tuning"
_NAMES = re.compile(r"[0-9a-f]{64}\.json")
_LIMIT_BYTES = 1 << 20
_FEWEST_ROWS, _MOST_ROWS = 4, 8
_MOST_OPERATIONS = 1 << 24
_SCRATCH = FirmwareTuning().scratch
"""Size of a worker's scratch memory, in floats; the compiler relies on this size."""

_TUNING = record(
    FirmwareTuning,
    width=integer(NARROW, max(ROWS)),
    rows=integer(_FEWEST_ROWS, _MOST_ROWS),
    scratch=integer(_SCRATCH, _SCRATCH),
    unit_operations=integer(1, _MOST_OPERATIONS),
)


def default_tuning(info: DeviceInfo, native_width: int) -> FirmwareTuning:
    """Returns the default tuning of a device; `native_width` is the device's vector width, in floats."""
    widest = driver_of_device(info).widest_vector
    width = widest if native_width >= widest else NARROW
    return FirmwareTuning(width=width, rows=ROWS[width])


def candidates(default: FirmwareTuning, info: DeviceInfo) -> list[FirmwareTuning]:
    """Returns the firmware tunings to measure: first the default, then other block and work unit sizes."""
    widths = [width for width in ROWS if width <= driver_of_device(info).widest_vector]
    now = default.unit_operations
    found = [replace(default, width=width, rows=rows) for width in widths for rows in ROWS.values()]
    found += [replace(default, unit_operations=count) for count in (now // 2, now * 4, now * 16)]
    return list(dict.fromkeys([default, *found]))


def find_tuning(info: DeviceInfo) -> FirmwareTuning | None:
    """Returns the firmware tuning that is stored for a device.

    Returns None if no tuning is stored, or if the tuning's file is damaged.
    """
    name = _name(info)
    try:
        data = read_file(_PART, name)
        node = JsonNode.parse(data, name, Status.SERIALIZATION).fields(("device", "tuning"))
        tuning = _TUNING.read(node["tuning"])
        if tuning.width not in ROWS or tuning.width > driver_of_device(info).widest_vector:
            raise node["tuning"].error(f"this device does not support vector width {tuning.width}")
        return tuning
    except OSError:
        return None
    except LiteRtError as error:
        _LOG.warning(
            "The emulated NPU uses the default tuning, because the stored tuning cannot be used: %s",
            error,
        )
        return None


def keep_tuning(info: DeviceInfo, tuning: FirmwareTuning) -> None:
    """Stores a firmware tuning on disk, for processes that use the device later.

    Raises:
      OSError: There is no cache folder for the file.
      LiteRtError: The file with the firmware's tuning cannot be written.
    """
    fields = {"device": list(info.identity), "tuning": _TUNING.dump(tuning)}
    keep_file(_PART, _name(info), [json.dumps(fields).encode()], _NAMES, _LIMIT_BYTES)


def forget_tuning(info: DeviceInfo) -> None:
    """Removes the firmware tuning that is stored for a device."""
    with suppress(OSError):
        os.unlink(os.path.join(cache_folder(_PART), _name(info)))


def _name(info: DeviceInfo) -> str:
    return hashlib.sha256(json.dumps(list(info.identity)).encode()).hexdigest() + ".json"
