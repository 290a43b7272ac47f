"""Makes the whole text of a custom layer's program, for people to read and compile.

The text has the form of Inference Engine custom layers: built-in defines, the layer's title, its own defines, its
  sources. The device builds the same text with `#line` directives and without the title.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vendor_reference.executable.executable import Executable, Program, Source
from vendor_reference.executable.source_text import (
    USER_DEFINES,
    expand_sources,
    fill_program,
    hole_values,
)
from vendor_reference.programs.asset_sources import AssetSources


def kernel_title(name: str, layer: str, needs_fp16: bool) -> str:
    """`Layer relu1 using Custom Layer ReLU`."""
    title = f"Layer {name} using Custom Layer {layer}"
    return f"{title} with fp16 arithmetic" if needs_fp16 else title


def kernel_text(program: Program, title: str, read: Callable[[Source], memoryview]) -> str:
    """Makes a program's text, which compiles without other files; `read` returns a source's bytes."""
    builtin, mark, own = program.prelude.partition(USER_DEFINES)
    parts = [builtin, f"// {_comment(title)}\n", mark, own]
    texts = expand_sources(program, read, has_line_marks=False)
    for source, text in zip(program.sources, texts, strict=True):
        parts += [f"// Custom Layer Kernel {_comment(source.file_name)}\n", text]
    return "".join(parts)


def kernel_texts(executable: Executable, sources: AssetSources) -> Sequence[str]:
    """Makes the text of each program of a custom layer, in order, for the largest shapes if shapes are dynamic.

    Raises:
      LiteRtError: NOT_FOUND or INVALID_ARGUMENT, if an asset is missing, was replaced, or is not text.
    """
    found: dict[int, str] = {}
    for function in executable.functions:
        bounds = [shape.bound for shape in function.shapes]
        for task in function.kernel_tasks:
            program = executable.programs[task.program]
            if task.program in found or not program.sources:
                continue
            values = hole_values(program, bounds.__getitem__)
            title = kernel_title(task.tensor, task.op_name, function.needs_fp16)
            found[task.program] = kernel_text(
                fill_program(program, values), title, sources.read_shown
            )
    return [found[index] for index in sorted(found)]


def _comment(text: str) -> str:
    """A text that stays within its line: tensors and files may be called anything."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)
