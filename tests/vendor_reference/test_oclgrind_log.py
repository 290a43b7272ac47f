"""Tests that Oclgrind's log becomes findings in the author's own files."""

from __future__ import annotations

from vendor_reference.authoring.sanitizer import Place, read_log, show_faults

LOG = """
Invalid write of size 4 at global memory address 0x2000000000010
\tKernel: k
\tEntity: Global(2,0,0) Local(0,0,0) Group(1,0,0)
\t  store float %1, float addrspace(1)* %arrayidx4, align 4, !dbg !41
\tAt line 6 (column 12) of a/b.cl:
\t  (source not available)
\t

Invalid write of size 4 at global memory address 0x2000000000014
\tKernel: k
\tEntity: Global(3,0,0) Local(1,0,0) Group(1,0,0)
\t  store float %1, float addrspace(1)* %arrayidx4, align 4, !dbg !41
\tAt line 6 (column 12) of a/b.cl:
\t  (source not available)
\t

Invalid read of size 4 at global memory address 0x2fffffffffff4
\tKernel: k
\tEntity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
\t  load float
\tAt line 2 (column 3) of a/b.cl:

Read-write data race at local memory address 0x1000000000000
\tKernel: k
\t
\tFirst entity:  Global(1,0,0) Local(1,0,0) Group(0,0,0)
\t  %10 = load float
\tAt line 9 (column 10) of a/b.cl:
\t  (source not available)
\t
\tSecond entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
\t  store float %conv5
\tAt line 8 (column 8) of c.h:
\t  (source not available)

Oclgrind - OpenCL runtime error detected
\tFunction: clSetKernelArg
\tError:    CL_INVALID_ARG_INDEX
"""
TEXT = """
#line 5 "a/b.cl"
five of b
  y[i + 2] = x[i];
"""


def test_what_was_done_is_counted_where_it_was_done() -> None:
    write, read, race = read_log(LOG)
    assert write.what == "Invalid write of size 4 at global memory, byte 16 of its buffer"
    assert (write.kernel, write.work_items, write.times) == ("k", ["2,0,0"], 2)
    assert write.places == [Place("a/b.cl", 6, 12)]
    assert read.what == "Invalid read of size 4 at global memory, byte -12 of its buffer"
    assert race.work_items == ["1,0,0", "0,0,0"]
    assert race.places == [Place("a/b.cl", 9, 10), Place("c.h", 8, 8)]


DIVERGENCE = """
Work-group divergence detected (barrier)
\tKernel:     k
\tWork-group: (1,0,0)
\tOnly 2 out of 16 work-items executed barrier
\t  call spir_func void @_Z7barrierj(i32 noundef 1) #5, !dbg !38
\tAt line 5 (column 30) of a/b.cl:
\t  (source not available)
\t
"""


def test_a_barrier_that_a_part_of_a_group_reaches_is_told_with_its_group() -> None:
    (fault,) = read_log(DIVERGENCE)
    assert (fault.kernel, fault.groups, fault.places) == ("k", ["1,0,0"], [Place("a/b.cl", 5, 30)])
    assert list(show_faults([fault], "")) == [
        "Only 2 of a group's 16 work items reach a barrier: kernel k, work group (1,0,0)",
        "  a/b.cl:5:30",
    ]


TWO_BARRIERS = """
Work-group divergence detected (barrier)
\tKernel:     k
\tWork-group: (0,0,0)
\t
\tWork-item:  Global(1,0,0) Local(1,0,0) Group(0,0,0)
\t  tail call spir_func void @_Z7barrierj(i32 noundef 1) #5, !dbg !27
\tAt line 4 (column 5) of a/b.cl:
\t  (source not available)
\tfence=0x1, num_events=0
\t
\tPrevious work-items executed:
\t  tail call spir_func void @_Z7barrierj(i32 noundef 2) #5, !dbg !41
\tAt line 8 (column 5) of a/b.cl:
\t  (source not available)
\tfence=0x2, num_events=0
\t
"""


def test_different_barriers_of_one_group_are_told_with_their_places() -> None:
    (fault,) = read_log(TWO_BARRIERS)
    assert (fault.work_items, fault.groups) == (["1,0,0"], ["0,0,0"])
    assert list(show_faults([fault], "")) == [
        "Only some work items of a group reach the barrier: kernel k, work item (1,0,0), work group (0,0,0)",
        "  a/b.cl:4:5",
        "  a/b.cl:8:5",
    ]


def test_private_memory_has_its_own_width_of_addresses() -> None:
    (fault,) = read_log(
        "Invalid read of size 4 at private memory address 0x600000024\n\tKernel: k\n\n"
    )
    assert fault.what == "Invalid read of size 4 at private memory, byte 36 of its buffer"


def test_each_finding_shows_the_author_s_line() -> None:
    assert list(show_faults(read_log(LOG)[:1], TEXT)) == [
        "Invalid write of size 4 at global memory, byte 16 of its buffer: kernel k, work item (2,0,0), "
        "2 times in all",
        "  a/b.cl:6:12",
        "      6 |   y[i + 2] = x[i];",
        "        |            ^",
    ]


def test_the_first_of_many_are_shown() -> None:
    log = "".join(
        f"Invalid read of size 4\n\tKernel: k\n\tAt line {n} (column 1) of k.cl:\n\n"
        for n in range(30)
    )
    assert list(show_faults(read_log(log), ""))[-1] == "and 10 more"


def test_a_log_of_nothing_has_no_findings() -> None:
    assert read_log("") == [] and read_log("\n\tKernel: k\n\n") == []
