"""Runs a layer on Oclgrind, which simulates the device and checks each access slowly but thoroughly.

The sanitizer needs a separate process, since its environment variables affect all drivers that are loaded later.

Oclgrind's log is converted to a list of faults, each with the event, the kernel, the work item and the line. A
message in the log is one line, followed by lines that begin with a tab:

    Invalid write of size 4 at global memory address 0x2000000000010
        Kernel: k
        Entity: Global(2,0,0) Local(0,0,0) Group(1,0,0)
          store float %1, float addrspace(1)* %2, ...
        At line 6 (column 12) of lib/k.cl:

The message about a race contains two entities and two source lines. If only part of a work group reaches a
barrier, the message contains the work group and the number of work items that reached the barrier. The number of a
buffer is in the upper 16 bits of an address. For private memory, it is in the upper 32 bits.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.atomic_file import temporary_folder
from vendor_reference.authoring.compiled_layer import LayerOptions, compile_layer
from vendor_reference.authoring.layer_run import Array, run_on_device
from vendor_reference.authoring.subject import Subject
from vendor_reference.drivers.driver import VARIABLE
from vendor_reference.drivers.installation import find_installations
from vendor_reference.drivers.known.oclgrind import DRIVER as OCLGRIND
from vendor_reference.programs.program_text import show_place

_KERNEL = re.compile(r"Kernel:\s*(.*)")
_ENTITY = re.compile(r"(?:Entity|First entity|Second entity|Work-item):\s*Global\(([\d,]+)\).*")
_GROUP = re.compile(r"Work-group:\s*\(([\d,]+)\)")
_REACHED = re.compile(r"Only (\d+) out of (\d+) work-items executed .*")
_PLACE = re.compile(r"At line (\d+) \(column (\d+)\) of (.*?):?")
_DIVERGENCE = re.compile(r"Work-group divergence detected \((.*)\)")
_ADDRESS = re.compile(r"(\w+) memory address 0x([0-9A-Fa-f]+)")
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A position in the source files of the kernel's author.

    Attributes:
      file_name: Name of the source file.
      line: Line number, counted from 1.
      column: Column number, counted from 1.
    """

    file_name: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class KernelFault:
    """A forbidden operation of a kernel.

    Attributes:
      what: Description of the fault, in Oclgrind's words except for barriers; addresses are replaced by offsets in
        their buffers.
      kernel: Name of the kernel.
      work_items: Global ids of the first work item with the fault, or of the two work items that race; for
        example, `2,0,0`.
      places: Positions of the fault in the source files; a race has two positions.
      times: Number of times that the fault occurred.
      groups: Ids of the work groups, for a fault of a whole group.
    """

    what: str
    kernel: str
    work_items: Sequence[str]
    places: Sequence[Place]
    times: int = 1
    groups: Sequence[str] = ()

    def lines(self, text: str) -> Iterator[str]:
        """Yields the fault as lines of text for people.

        `text` is the program's text, which contains the source lines.
        """
        where = [f"kernel {self.kernel}"]
        for kind, ids in (("work item", self.work_items), ("work group", self.groups)):
            if ids:
                plural = "s" if len(ids) > 1 else ""
                where.append(f"{kind}{plural} {' and '.join(f'({number})' for number in ids)}")
        if self.times > 1:
            where.append(f"{self.times} times in all")
        yield f"{self.what}: {', '.join(where)}"
        for place in dict.fromkeys(self.places):
            yield f"  {place}"
            lines = show_place(text, place.file_name, place.line, place.column)
            yield from (f"  {line}" for line in lines)


@contextmanager
def simulated_device() -> Iterator[str]:
    """Selects Oclgrind as the device of this process before OpenCL is loaded; yields the path of Oclgrind's log.

    Raises:
      LiteRtError: NOT_FOUND, if Oclgrind is not installed.
    """
    if not has_simulator():
        raise LiteRtError(
            Status.NOT_FOUND,
            "--sanitize runs the kernel in the simulator Oclgrind, which is not installed",
            hint=f"Install Oclgrind: {OCLGRIND.hint}.",
        )
    with temporary_folder() as folder:
        log = os.path.join(folder, "log")
        os.environ.update(
            {
                VARIABLE: OCLGRIND.name,
                "LITERT_NPU_CACHE_DIR": folder,  # programs that are built without optimization
                "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",  # optimization removes faulty code
                "OCLGRIND_DATA_RACES": "1",
                "OCLGRIND_UNINITIALIZED": "1",
                "OCLGRIND_LOG": log,
            }
        )
        yield log


def sanitize(
    subject: Subject, options: LayerOptions, arrays: Sequence[Array], log_path: str
) -> tuple[list[KernelFault], str]:
    """Runs a layer once on the simulated device, which writes its log to `log_path`.

    Returns:
      The faults of the kernel, and the program's text, which contains the source lines.
    """
    with compile_layer(subject, options) as compiled:
        task, program = compiled.find_kernel()
        with run_on_device(compiled) as running:
            running.set_inputs(arrays)
            running.call.run()
        text = compiled.text(program).text
    with open(log_path, encoding="utf-8", errors="replace") as stream:
        faults = read_log(stream.read())
    for index, fault in enumerate(faults):
        if fault.kernel != task.entry:
            what = (
                f"{fault.what}, in a kernel that reorders the outputs of kernel '{task.entry}', which has not "
                "written all elements"
            )
            faults[index] = replace(fault, what=what, places=())
    return faults, text


def has_simulator() -> bool:
    """Returns whether Oclgrind is installed."""
    return any(i.driver is OCLGRIND and not i.problem for i in find_installations())


def read_log(log: str) -> list[KernelFault]:
    """Returns the faults in an Oclgrind log.

    Faults that differ only in work items and addresses count as one fault.
    """
    found: dict[object, KernelFault] = {}
    for fault in _faults(log):
        key = (re.sub(r"\d+", "", fault.what), fault.kernel, tuple(fault.places))
        first = found.get(key)
        found[key] = replace(first, times=first.times + 1) if first else fault
    return list(found.values())


def show_faults(faults: Sequence[KernelFault], text: str) -> Iterator[str]:
    """Yields the first faults as lines of text for people."""
    for fault in faults[:_MOST_SHOWN]:
        yield from fault.lines(text)
    if len(faults) > _MOST_SHOWN:
        yield f"and {len(faults) - _MOST_SHOWN} more"


def _faults(log: str) -> Iterator[KernelFault]:
    """Yields a fault for each message that names a kernel: other messages are about API calls."""
    what, details = "", list[str]()
    for row in [*log.split("\n"), "end"]:
        if row.startswith((" ", "\t")) or not row.strip():
            details.append(row.strip())
            continue
        if what and any(_KERNEL.fullmatch(detail) for detail in details):
            yield _fault(what, details)
        what, details = row.strip(), []


def _fault(what: str, details: Sequence[str]) -> KernelFault:
    def found(pattern: re.Pattern[str]) -> list[re.Match[str]]:
        return [match for detail in details if (match := pattern.fullmatch(detail))]

    if divergence := _DIVERGENCE.fullmatch(what):
        what = f"Only some work items of a group reach the {divergence[1]}"
        for reached in found(_REACHED):
            what = f"Only {reached[1]} of a group's {reached[2]} work items reach a {divergence[1]}"
    return KernelFault(
        _ADDRESS.sub(lambda match: _offset(match[1], match[2]), what),
        found(_KERNEL)[0][1],
        [match[1] for match in found(_ENTITY)],
        [Place(match[3], int(match[1]), int(match[2])) for match in found(_PLACE)],
        groups=[match[1] for match in found(_GROUP)],
    )


def _offset(space: str, address: str) -> str:
    bits = 32 if space == "private" else 48
    offset = int(address, 16) & ((1 << bits) - 1)
    if offset >> (bits - 1):  # before the start of the buffer
        offset -= 1 << bits
    return f"{space} memory, byte {offset} of its buffer"
