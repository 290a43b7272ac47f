"""Opens the sandbox of an OpenCL compiler for a test's own compilers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from litert.host.sandbox import Sandbox
from vendor_reference.drivers import proof
from vendor_reference.drivers.sandbox import driver_sandbox


def open_sandbox(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Allows compilers to import modules from a folder."""

    def opened(library: str) -> Sandbox:
        sandbox = driver_sandbox(library)
        return replace(sandbox, readable=(*sandbox.readable, str(folder)))

    monkeypatch.setattr(proof, "driver_sandbox", opened)
