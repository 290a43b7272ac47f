"""Chooses the OpenCL device that emulates the NPU.

Of the devices of all working drivers, the best is chosen. GPUs are better than CPUs, and drivers for the same type
of device are ranked by merit. A simulator is used only if the user names it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.progress import told
from litert.core.status import Status
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.drivers.driver import VARIABLE, driver_of_device, known_drivers
from vendor_reference.drivers.installation import Installation, find_installations
from vendor_reference.drivers.proof import Proof, fingerprint, prove

_KINDS = ("CPU", "ACCELERATOR", "GPU")
"""Types of devices, from worst to best; all other types are worse."""

_DEFAULT = "intel"


@dataclass(frozen=True, slots=True)
class ChosenDevice:
    """An OpenCL device and its driver."""

    installation: Installation
    info: DeviceInfo

    def __str__(self) -> str:
        return f"{self.info}, {self.installation.library}"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the device and driver; equal only if both the device and the driver are equal."""
        return "\n".join([fingerprint(self.installation), *self.info.identity])


def choose_device(wanted: str = "") -> ChosenDevice:
    """Chooses a device of a working driver, without loading a driver into this process.

    Args:
      wanted: Device to choose, as `platform[:device]`; if it is "", the environment variable LITERT_NPU_OPENCL
        selects the device. If this variable is not set, the best device is chosen.

    Raises:
      LiteRtError: NOT_FOUND, if no driver has the device; the message contains all drivers and the reasons why
        they are not used.
    """
    return find_devices(wanted)[0]


def find_devices(wanted: str = "") -> Sequence[ChosenDevice]:
    """Lists all devices of working drivers, with the best device first.

    The argument and the errors are the same as for `choose_device`.
    """
    wanted = wanted or os.environ.get(VARIABLE, "")
    proofs = prove_all(wanted)
    devices = [ChosenDevice(p.installation, info) for p in proofs for info in p.devices]
    ranked = rank_devices([device.info for device in devices], wanted)
    if not ranked:
        raise _none_left(wanted, proofs)
    return [devices[index] for index in ranked]


def prove_all(wanted: str = "") -> Sequence[Proof]:
    """Tests the wanted driver.

    If this driver does not work, or if no driver is wanted, tests all installed drivers except simulators.
    """
    wanted = (wanted or os.environ.get(VARIABLE, "")).lower()
    name = wanted.partition(":")[0].strip()
    installations = find_installations()
    named = [prove(i) for i in installations if i.driver.name and i.driver.name == name]
    if any(proof.devices for proof in named):
        return named  # other drivers may be slow to try
    tried = [i for i in installations if not i.driver.is_simulator or i.driver.name in wanted]
    return [prove(installation) for installation in told("try drivers", tried)]


def rank_devices(devices: Sequence[DeviceInfo], wanted: str) -> Sequence[int]:
    """Returns the indices of the devices whose names contain the wanted parts, with the best device first."""
    platform, _, name = wanted.partition(":")
    fitting = [
        index
        for index, device in enumerate(devices)
        if _is_called(platform, f"{device.platform} {device.platform_version}", device)
        and _is_called(name, f"{device.name} {device.version}")
        and (not is_simulator(device) or driver_of_device(device).name in wanted.lower())
    ]
    return sorted(fitting, key=lambda index: _merit(devices[index]), reverse=True)


def is_simulator(device: DeviceInfo) -> bool:
    """Returns whether a device is a simulator, which is slow because it checks each memory access."""
    return driver_of_device(device).is_simulator


def install_hint() -> str:
    """Returns a hint about how to install a working driver."""
    return f"Install an OpenCL driver: {known_drivers()[_DEFAULT].hint}, or {known_drivers()['pocl'].hint}."


def _is_called(part: str, name: str, device: DeviceInfo | None = None) -> bool:
    part = part.strip().lower()
    return part in name.lower() or (device is not None and part == driver_of_device(device).name)


def _merit(device: DeviceInfo) -> tuple[int, tuple[int, ...]]:
    kind = _KINDS.index(device.kind) if device.kind in _KINDS else -1
    return kind, driver_of_device(device).merit(device)


def _none_left(wanted: str, proofs: Sequence[Proof]) -> LiteRtError:
    there = [str(info) for proof in proofs for info in proof.devices]
    failed = [str(proof) for proof in proofs if proof.problem]
    if wanted and there:
        are = "the available devices are" if len(there) > 1 else "the only available device is"
        what = f"no OpenCL device matches '{wanted}'; {are} {'; '.join(there)}"
        is_variable = wanted == os.environ.get(VARIABLE)
        setting = f"environment variable {VARIABLE}" if is_variable else "dispatch option 'opencl'"
        hint = (
            f"Set the {setting} to a part of a platform's name. To choose one of the platform's devices, append a "
            "colon and a part of the device's name."
        )
    else:
        what = (
            "no OpenCL driver works on this machine" if failed else "no OpenCL driver is installed"
        )
        hint = install_hint()
    reasons = "; ".join(failed)
    return LiteRtError(
        Status.NOT_FOUND,
        f"{what}{reasons and '. These drivers were found, but cannot be used: '}{reasons}",
        hint=hint,
    )
