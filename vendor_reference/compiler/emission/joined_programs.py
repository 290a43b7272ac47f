"""Kernels that are the compiler's own become one program: to build one each takes five times as long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vendor_reference.executable.executable import Executable, Function, KernelTask, Program


def join_programs(
    executable: Executable, samples: Sequence[Program]
) -> tuple[Executable, Sequence[Program]]:
    """One program for all that consist of text alone, whose kernels have unique names.

    Args:
      executable: whose programs are joined.
      samples: of each program, which are joined in the same way.

    Returns:
      Both.
    """
    texts = [i for i, program in enumerate(executable.programs) if _is_text(program)]
    if len(texts) < 2:
        return executable, samples
    kept = [i for i in range(len(executable.programs)) if i not in texts[1:]]
    places = {old: new for new, old in enumerate(kept)}
    places.update(dict.fromkeys(texts, places[texts[0]]))
    joined = Program("\n".join(executable.programs[i].prelude for i in texts), ())

    def join(programs: Sequence[Program]) -> list[Program]:
        return [joined if index == texts[0] else programs[index] for index in kept]

    functions = [_with_places(function, places) for function in executable.functions]
    made = replace(executable, functions=functions, programs=join(executable.programs))
    return made, join(samples)


def _is_text(program: Program) -> bool:
    return not (program.sources or program.build_options or program.holes)


def _with_places(function: Function, places: Mapping[int, int]) -> Function:
    tasks = [
        replace(task, program=places[task.program]) if isinstance(task, KernelTask) else task
        for task in function.tasks
    ]
    return replace(function, tasks=tasks)
