"""Assembles the firmware's source code: its core, all instruction families, and the kernel that runs commands."""

from __future__ import annotations

from dataclasses import dataclass

from vendor_reference.firmware.instructions import FOLDER, family_texts, instruction_set

ENTRY = "run_commands"
CHECK_ENTRY = "check_commands"
WRONG_FIELDS = 255
"""Result of a check that found invalid fields in a command, but no invalid field of type `Place`."""
NUM_REGIONS = 16
SCRATCH_REGION = NUM_REGIONS - 1
"""Index of the memory region that contains the scratch memory: `FirmwareTuning.scratch` floats for each worker."""
NARROW = 8
"""Number of floats per vector on devices with small registers, or with drivers that need narrow vectors."""
ROWS = {8: 6, 16: 8}
"""Number of rows of a matrix product whose sums fit into registers, by the number of floats per vector."""
NOWHERE = 2**32 - 1
FAULT_WORDS = 8
"""Number of words before the counters; in these words, a command reports an error."""
PLACE_UNIT = 64
"""Unit of the offset in a `Place`, in bytes."""
_LINE = 16
"""Distance from one counter to the next, in words."""
_MOST_PARTS = 8
"""Maximum number of parts into which a command's units of work are divided.

If there are more workers than parts, several workers share a part.
"""


@dataclass(frozen=True, slots=True)
class FirmwareTuning:
    """Build parameters of the firmware for a device; the results of commands do not depend on these parameters.

    Attributes:
      width: Number of floats in a vector.
      rows: Number of rows of a matrix product that a worker computes at once.
      scratch: Size of each worker's own scratch memory, in floats.
      unit_operations: Minimum number of operations in a unit of work.
    """

    width: int = 16
    rows: int = 8
    scratch: int = 16384
    unit_operations: int = 4096


def count_counters(num_commands: int, num_workers: int) -> int:
    """Returns the number of words that the counters need for the given numbers of commands and workers."""
    return FAULT_WORDS + _LINE * (min(num_workers, _MOST_PARTS) + 1) * num_commands + 1


def firmware_text(tuning: FirmwareTuning) -> str:
    """Returns the source text of the firmware; equal texts are built only once per driver."""
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
