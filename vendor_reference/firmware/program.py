"""The firmware's text: its core, all families of instructions, and the kernel that runs commands."""

from __future__ import annotations

from dataclasses import dataclass

from vendor_reference.firmware.instructions import FOLDER, family_texts, instruction_set

ENTRY = "run_commands"
CHECK_ENTRY = "check_commands"
WRONG_FIELDS = 255
"""What a check returns that is no place of its command."""
NUM_REGIONS = 16
SCRATCH_REGION = NUM_REGIONS - 1
"""The workers' scratch: `FirmwareTuning.scratch` floats for each."""
NARROW = 8
"""Floats in a vector for devices whose registers hold no more, or whose driver cannot do better."""
ROWS = {8: 6, 16: 8}
"""Rows of a product whose sums fit the registers, by the floats in a vector."""
NOWHERE = 2**32 - 1
FAULT_WORDS = 8
"""In front of the counters: what a command has found wrong."""
PLACE_UNIT = 64
"""Bytes that an offset of a place counts."""
_LINE = 16
"""Words from counter to counter."""
_MOST_PARTS = 8
"""Into which a command's units are shared out; more workers share parts."""


@dataclass(frozen=True, slots=True)
class FirmwareTuning:
    """What the firmware is built with for a device; results are the same with any.

    Attributes:
      width: floats in a vector.
      rows: rows of a product that a worker makes at once.
      scratch: floats of a worker's own.
      unit_operations: the least work that is shared out at once.
    """

    width: int = 16
    rows: int = 8
    scratch: int = 16384
    unit_operations: int = 4096


def count_counters(num_commands: int, num_workers: int) -> int:
    """Words of the counters that so many commands need, launched for so many workers."""
    return FAULT_WORDS + _LINE * (min(num_workers, _MOST_PARTS) + 1) * num_commands + 1


def firmware_text(tuning: FirmwareTuning) -> str:
    """The program's text; equal texts are built once for a driver."""
    defines = {
        "WIDTH": tuning.width,
        "ROWS": tuning.rows,
        "SCRATCH": tuning.scratch,
        "FAULT_WORDS": FAULT_WORDS,
        "LINE": _LINE,
        "MOST_PARTS": _MOST_PARTS,
        "UNIT_OPERATIONS": f"{tuning.unit_operations}ul",
    }
    names = [f"r{i}" for i in range(NUM_REGIONS)]
    defines["REGION_ARGUMENTS"] = ", ".join(f"__global uchar* {name}" for name in names)
    defines["REGION_NAMES"] = ", ".join(names)
    lines = [f"#define {name} {value}" for name, value in defines.items()]
    core, reach, panels, worker, checker = (
        (FOLDER / name).read_text(encoding="utf-8")
        for name in ("core.cl", "reach.cl", "panels.cl", "worker.cl", "checker.cl")
    )
    parts = [_ATOMICS, core, reach, panels, *family_texts(), _dispatch(), worker, checker]
    return "\n".join([*lines, *parts])


def _dispatch() -> str:
    """The functions that find the instruction of a command by its number; its fields begin at word 2."""
    check, places, units, run = [], [], [], []
    for number, (name, instruction) in enumerate(instruction_set().items()):
        fields = f"(const __global {name}*)(command + 2)"
        check.append(f"    case {number}: return check_{name}(check, {fields});")
        places.append(f"    case {number}: return {len(instruction.places)};")
        units.append(f"    case {number}: return units_{name}(core, {fields});")
        run.append(f"    case {number}: run_{name}(core, {fields}, unit); break;")
    return "\n".join(
        [
            "uint check_command(const Check* check, const __global uint* command) {",
            "  switch (command[0]) {",
            *check,
            "  }",
            "  return WRONG_FIELDS;",
            "}",
            "uint count_places(const __global uint* command) {",
            "  switch (command[0]) {",
            *places,
            "  }",
            "  return 0;",
            "}",
            "uint count_units(const Core* core, const __global uint* command) {",
            "  switch (command[0]) {",
            *units,
            "  }",
            "  return 0;",
            "}",
            "void run_unit(const Core* core, const __global uint* command, const uint unit) {",
            "  switch (command[0]) {",
            *run,
            "  }",
            "}",
        ]
    )


_ATOMICS = """
#if __OPENCL_C_VERSION__ >= 300
#if defined(__opencl_c_atomic_order_acq_rel) && defined(__opencl_c_atomic_scope_device)
#define ORDERS_GROUPS
#endif
#elif __OPENCL_C_VERSION__ >= 200
#define ORDERS_GROUPS
#endif
#ifdef ORDERS_GROUPS
typedef atomic_uint Counter;
#define ADD(p, n) atomic_fetch_add_explicit(p, n, memory_order_acq_rel, memory_scope_device)
#define READ(p) atomic_load_explicit(p, memory_order_acquire, memory_scope_device)
#define CLEAR(p) atomic_store_explicit(p, 0, memory_order_relaxed, memory_scope_device)
#else
typedef uint Counter;
#define ADD(p, n) atomic_add(p, n)
#define READ(p) atomic_add(p, 0)
#define CLEAR(p) (*(p) = 0)
#endif
"""
