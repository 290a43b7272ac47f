"""The OpenCL drivers on this machine, each tried in a child process: drivers crash, and hang."""

from __future__ import annotations

from collections.abc import Iterator

from litert.core.errors import LiteRtError


def list_opencl_drivers() -> list[str]:
    """A line for each device of each driver, and for each driver that is not used the reason."""
    return list(_lines())


def _lines() -> Iterator[str]:
    from vendor_reference.drivers.device_choice import choose_device
    from vendor_reference.drivers.installation import find_installations
    from vendor_reference.drivers.proof import prove

    proofs = [prove(installation, again=True) for installation in find_installations()]
    chosen = None
    try:
        chosen = choose_device()
    except LiteRtError as error:
        yield f"none is used: {error}"
    for proof in proofs:
        driver, origin = proof.installation, proof.installation.origin
        if proof.problem:
            yield f"{driver.name}: not used: {proof.problem} ({origin})"
        for info in proof.devices:
            is_used = (
                chosen and chosen.installation == driver and chosen.info.identity == info.identity
            )
            half = "" if info.has_fp16 else ", no fp16 arithmetic"
            what = f"{info.platform}: {info.name} ({info.kind}, {info.compute_units} compute units{half}; "
            what += f"{info.platform_version}), {origin}"
            if driver.driver.is_simulator:
                what += "; a simulator, used where it is named"
            yield f"{driver.name}: {'used for the NPU: ' if is_used else ''}{what}"
