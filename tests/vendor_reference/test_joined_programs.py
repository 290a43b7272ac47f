"""Programs of the compiler's own kernels become one."""

from __future__ import annotations

from tests.vendor_reference.executables import floats, in_, out, source
from vendor_reference.compiler.emission.launches import join_programs
from vendor_reference.executable.executable import Executable, Function, KernelTask, Program


def made(*programs: Program) -> Executable:
    """An executable with a task for each program."""
    tasks = [KernelTask(f"Op{i}", i, f"k{i}", [in_(), out()], [4]) for i in range(len(programs))]
    return Executable("EMU8", [Function("f", [floats(4)], [floats(4)], tasks)], programs, ())


def test_texts_are_joined_and_their_tasks_follow() -> None:
    users = Program("// defines", (source("k"),))
    with_options = Program("b", (), "-DX")
    executable = made(Program("a", ()), users, Program("b", ()), with_options, Program("c", ()))
    sample = Program("// sample", users.sources)
    joined, samples = join_programs(
        executable, [*executable.programs[:1], sample, *executable.programs[2:]]
    )
    assert list(samples) == [joined.programs[0], sample, with_options]
    assert joined.programs == [Program("a\nb\nc", ()), users, with_options]
    assert [task.program for task in joined.functions[0].kernel_tasks] == [0, 1, 0, 2, 0]


def test_one_text_stays_as_it_is() -> None:
    executable = made(Program("// defines", (source("k"),)), Program("a", ()))
    assert join_programs(executable, executable.programs)[0] is executable
