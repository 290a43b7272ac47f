"""Runs a layer on Oclgrind, which simulates the device and checks each access; slow, and thorough.

For a process of its own: the variables that it sets count for all that is loaded after.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.authoring.compiled_layer import LayerOptions, compile_layer
from vendor_reference.authoring.kernel_view import find_kernel_task
from vendor_reference.authoring.layer_run import Array, run_on_device
from vendor_reference.authoring.oclgrind_log import Finding, read_log
from vendor_reference.authoring.subject import Subject
from vendor_reference.drivers.choice import VARIABLE
from vendor_reference.drivers.installation import find_installations
from vendor_reference.drivers.known.oclgrind import DRIVER as OCLGRIND


@contextmanager
def simulated_device() -> Iterator[str]:
    """Makes Oclgrind the device of this process, in which no OpenCL is loaded yet; gives its log's path.

    Raises:
      LiteRtError: NOT_FOUND, if it is not installed.
    """
    if not has_simulator():
        raise LiteRtError(
            Status.NOT_FOUND,
            "Oclgrind is not installed",
            hint=OCLGRIND.hint,
        )
    with tempfile.TemporaryDirectory(prefix="litert-npu-sanitize-") as folder:
        log = os.path.join(folder, "log")
        os.environ.update(
            {
                VARIABLE: OCLGRIND.name,
                "LITERT_NPU_CACHE_DIR": folder,  # programs that are built without optimization
                "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",  # which removes what is to be found
                "OCLGRIND_DATA_RACES": "1",
                "OCLGRIND_UNINITIALIZED": "1",
                "OCLGRIND_LOG": log,
            }
        )
        yield log


def sanitize(
    subject: Subject, options: LayerOptions, arrays: Sequence[Array], log_path: str
) -> tuple[list[Finding], str]:
    """Runs a layer once on the simulated device.

    Args:
      subject: the op.
      options: the layer.
      arrays: its inputs that are no constants.
      log_path: from `simulated_device`.

    Returns:
      What the kernel does that it must not; and the program's text, for the lines.

    Raises:
      LiteRtError: what is wrong with the layer.
    """
    with compile_layer(subject, options) as compiled:
        task = find_kernel_task(compiled)
        program = compiled.executable.programs[task.program]
        with run_on_device(compiled) as running:
            running.set_inputs(arrays)
            running.run_once()
        text = compiled.text(program).text
    with open(log_path, encoding="utf-8", errors="replace") as stream:
        findings = read_log(stream.read())
    return [_in_own_kernel(finding, task.entry) for finding in findings], text


def _in_own_kernel(finding: Finding, entry: str) -> Finding:
    """A finding as it is; one in a kernel that reorders is about what the author's has not written."""
    if finding.kernel == entry:
        return finding
    what = f"{finding.what}, where a kernel reorders what '{entry}' has not written"
    return replace(finding, what=what, places=())


def has_simulator() -> bool:
    """Whether Oclgrind is installed."""
    return any(i.driver is OCLGRIND and not i.problem for i in find_installations())
