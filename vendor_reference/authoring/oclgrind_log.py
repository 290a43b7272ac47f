"""What Oclgrind writes becomes findings: what happened, in which kernel and work item, at which line.

A message of its log is a line, and lines below it that begin with a tab:

    Invalid write of size 4 at global memory address 0x2000000000010
        Kernel: k
        Entity: Global(2,0,0) Local(0,0,0) Group(1,0,0)
          store float %1, float addrspace(1)* %2, ...
        At line 6 (column 12) of lib/k.cl:

A race has two entities, and two places. Addresses have a buffer's number in their upper 16 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vendor_reference.device.program_text import show_place

_KERNEL = re.compile(r"Kernel: (.*)")
_ENTITY = re.compile(r"(?:Entity|First entity|Second entity):\s*Global\(([\d,]+)\)")
_PLACE = re.compile(r"At line (\d+) \(column (\d+)\) of (.*?):?")
_ADDRESS = re.compile(r" address 0x([0-9A-Fa-f]+)")
_OFFSET_BITS = 48
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the author's files."""

    file_name: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file_name}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a kernel did that it must not.

    Attributes:
      what: in Oclgrind's words; of an address, what it is in its buffer.
      kernel: its name.
      work_items: global ids, `2,0,0`; of the first that did it, or of the two that race.
      places: where; for a race, of both.
      times: how often it was seen.
    """

    what: str
    kernel: str
    work_items: Sequence[str]
    places: Sequence[Place]
    times: int = 1

    def lines(self, text: str) -> Iterator[str]:
        """For people; `text` is the program's, which has the source lines."""
        items = " and ".join(f"({item})" for item in self.work_items)
        plural = "s" if len(self.work_items) > 1 else ""
        more = f", {self.times} times in all" if self.times > 1 else ""
        yield f"{self.what}: kernel {self.kernel}, work item{plural} {items}{more}"
        for place in dict.fromkeys(self.places):
            yield f"  {place}"
            yield from (
                f"  {line}" for line in show_place(text, place.file_name, place.line, place.column)
            )


def read_log(log: str) -> list[Finding]:
    """The findings of a log; what only differs in work items and addresses is one, counted."""
    found: dict[object, Finding] = {}
    for finding in _findings(log):
        what = re.sub(r"\d+", "", finding.what)
        key = (what, finding.kernel, tuple(finding.places))
        first = found.get(key, finding)
        times = first.times + 1 if key in found else 1
        found[key] = Finding(first.what, first.kernel, first.work_items, first.places, times)
    return list(found.values())


def show_findings(findings: Sequence[Finding], text: str) -> Iterator[str]:
    """For people; the first of many."""
    for finding in findings[:_MOST_SHOWN]:
        yield from finding.lines(text)
    if len(findings) > _MOST_SHOWN:
        yield f"and {len(findings) - _MOST_SHOWN} more"


def _findings(log: str) -> Iterator[Finding]:
    """A finding for each message that names a kernel: others are about calls, not about what a kernel does."""
    what, details = "", list[str]()
    for row in [*log.split("\n"), "end"]:
        if row.startswith((" ", "\t")) or not row.strip():
            details.append(row.strip())
            continue
        if what and any(_KERNEL.fullmatch(detail) for detail in details):
            yield _finding(what, details)
        what, details = row.strip(), []


def _finding(what: str, details: Sequence[str]) -> Finding:
    def found(pattern: re.Pattern[str]) -> list[re.Match[str]]:
        return [match for detail in details if (match := pattern.match(detail))]

    return Finding(
        _ADDRESS.sub(lambda match: _offset(match[1]), what),
        found(_KERNEL)[0][1],
        [match[1] for match in found(_ENTITY)],
        [
            Place(match[3], int(match[1]), int(match[2]))
            for detail in details
            if (match := _PLACE.fullmatch(detail))
        ],
    )


def _offset(address: str) -> str:
    offset = int(address, 16) & ((1 << _OFFSET_BITS) - 1)
    if offset >> (_OFFSET_BITS - 1):  # before the buffer's start
        offset -= 1 << _OFFSET_BITS
    return f", byte {offset} of its buffer"
