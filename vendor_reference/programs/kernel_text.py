"""Creates the whole source text of a custom layer's program, for people who want to read and compile it.

The source text has the same form as the text of OpenVINO Inference Engine's custom layers: built-in defines, the
layer's title, the layer's own defines, the layer's sources. The device builds the same source text, but with
`#line` directives and without the title.
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
    """Returns the title line of a custom layer, such as `Layer relu1 using Custom Layer ReLU`."""
    title = f"Layer {name} using Custom Layer {layer}"
    return f"{title} with fp16 arithmetic" if needs_fp16 else title


def kernel_text(program: Program, title: str, read: Callable[[Source], memoryview]) -> str:
    """Returns a program's source text, which compiles without other files.

    `read` returns the bytes of a source file.
    """
    builtin, mark, own = program.prelude.partition(USER_DEFINES)
    parts = [builtin, f"// {_comment(title)}\n", mark, own]
    texts = expand_sources(program, read, has_line_marks=False)
    for source, text in zip(program.sources, texts, strict=True):
        parts += [f"// Custom Layer Kernel {_comment(source.file_name)}\n", text]
    return "".join(parts)


def kernel_texts(executable: Executable, sources: AssetSources) -> Sequence[str]:
    """Returns the source text of each custom layer's program, in order.

    Dynamic shapes are replaced by their largest shapes.

    Raises:
      LiteRtError: NOT_FOUND, if an asset is missing; INVALID_ARGUMENT, if an asset was replaced or is not text.
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
    """Returns a text without line breaks and backslashes, which names of tensors and files may contain."""
    return "".join(c if c.isprintable() and c != "\\" else "?" for c in text)
