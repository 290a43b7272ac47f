"""Finds the installed OpenCL drivers without loading them.

The OpenCL loader finds a driver by its registration, which is an `.icd` file. The first line of this file is the
path of the driver's library. Registrations lie in a folder of the system, and next to the loader in pyopencl's
wheel. The environment variable `OCL_ICD_VENDORS` can replace the system's folder. Some drivers are not registered.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from importlib.util import find_spec

from vendor_reference.drivers.driver import Driver, driver_of_library, known_drivers

_SYSTEM_FOLDER = "/etc/OpenCL/vendors"
_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class Installation:
    """An OpenCL driver that is installed on this machine.

    Attributes:
      driver: Known facts about the installed driver.
      library: Path of the driver's library, or a name that the system's dynamic linker finds.
      origin: Path of the driver's registration file, or of the library itself.
      problem: Known reason why the driver cannot be loaded; "" if none is known.
    """

    driver: Driver
    library: str
    origin: str
    problem: str = ""

    @property
    def name(self) -> str:
        """For messages."""
        return self.driver.name or os.path.basename(self.library) or os.path.basename(self.origin)


def find_installations() -> Sequence[Installation]:
    """Lists all installed drivers, without duplicates; drivers that can be loaded come first."""
    found: dict[str, Installation] = {}
    for installation in (*_registered(), *_unregistered()):
        library = installation.library
        found.setdefault(
            os.path.realpath(library) if library else installation.origin, installation
        )
    return sorted(found.values(), key=lambda installation: bool(installation.problem))


def _unregistered() -> Iterator[Installation]:
    for driver in known_drivers().values():
        for library in driver.find():
            missing = "" if os.path.exists(library) else "the driver's library does not exist"
            yield Installation(driver, library, library, missing)


def _registered() -> Iterator[Installation]:
    vendors = os.environ.get("OCL_ICD_VENDORS") or _SYSTEM_FOLDER
    if ".so" in os.path.basename(vendors):  # same as in ocl-icd
        yield _installation(vendors, "OCL_ICD_VENDORS")
        return
    if vendors != _SYSTEM_FOLDER and not os.path.exists(vendors):
        yield _broken("OCL_ICD_VENDORS", f"{vendors} does not exist")
        return
    pyopencl = find_spec("pyopencl")
    package = (pyopencl.submodule_search_locations or ()) if pyopencl else ()
    for folder in (vendors, *(os.path.join(folder, ".libs") for folder in package)):
        for path in [folder] if folder.endswith(".icd") else sorted(glob(f"{folder}/*.icd")):
            yield _read_registration(path)


def _read_registration(path: str) -> Installation:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            library = file.readline(_LONGEST_NAME).strip()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return _broken(path, f"the file cannot be read: {reason}")
    if not library:
        return _broken(path, "the file does not contain the path of a driver's library")
    beside = os.path.join(os.path.dirname(path), library)
    if os.sep not in library and os.path.exists(beside):
        library = beside
    return _installation(library, path)


def _broken(origin: str, problem: str) -> Installation:
    return Installation(driver_of_library(""), "", origin, problem)


def _installation(library: str, origin: str) -> Installation:
    # The system's linker finds names without a folder.
    is_missing = os.sep in library and not os.path.exists(library)
    problem = f"the driver's library {library} does not exist" if is_missing else ""
    return Installation(driver_of_library(library), library, origin, problem)
