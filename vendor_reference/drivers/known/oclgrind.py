"""Oclgrind, a simulator that checks each memory access of a kernel; a run of a whole network takes hours."""

from __future__ import annotations

from vendor_reference.drivers.driver import Driver


class Oclgrind(Driver):
    """The simulator Oclgrind, which is used only if the user names it."""

    name = "oclgrind"
    library = "liboclgrind"
    platform = "Oclgrind"
    hint = "pip install 'litert-npu[sanitize]' (x86-64 Linux)"
    is_simulator = True
    compiles_for_group_sizes = False


DRIVER = Oclgrind()
