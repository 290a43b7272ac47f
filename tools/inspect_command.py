"""`litert-npu inspect`: shows the contents of a compiled file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.model.assets import read_assets
from litert.model.blob import Blob
from litert.model.byte_code_container import carried_assets
from litert.model.graph import Model
from litert.model.reader import read_model

from .command import Command
from .command_line import PAGE, REPORT, FlagValues, usage_error
from .console import name_text, print_lines, print_text, size_text
from .destinations import write_file
from .inspect_page import inspect_page
from .inspection import inspect_file
from .page.writing import check_pages, is_page_wanted, write_pages


def extract(path: str, name: str, output: str) -> int:
    """Extracts a part of a compiled file to another file, and returns the part's size in bytes."""
    with read_model(path) as model:
        blob = next((blob for found, blob in _parts(model) if found == name), None)
        if blob is None:
            names = [name_text(found) for found, _ in _parts(model)]
            listed = f"Give one of {', '.join(names)}." if names else "There is nothing to extract."
            raise LiteRtError(
                Status.NOT_FOUND,
                f"the file contains no asset, byte code or metadata with the name '{name}'",
                path,
                did_you_mean(name, names, listed),
            )
        write_file(output, lambda file: file.write(blob.view), [path])
        return blob.size


def _parts(model: Model) -> Iterator[tuple[str, Blob]]:
    """Returns the parts that can be extracted, by name: assets, companion files, byte code and metadata."""
    yield from ((asset.name, asset.blob) for asset in read_assets(model))
    yield from ((asset.name, asset.blob) for asset in carried_assets(model))
    for index, module in enumerate(model.byte_code):
        yield f"byte_code:{index}", module.blob
    for entry in model.metadata:
        yield f"metadata:{entry.name}", entry.buffer.blob or Blob(b"")


_FLAGS = (
    Flag("dump", False, "Print the whole graph in MLIR syntax instead of the summary."),
    Flag(
        "extract",
        "",
        "Part of the file to extract: the name of an asset or of a companion file (a file to "
        "which an asset refers), byte_code:<index>, or metadata:<name>.",
    ),
    Flag("output", "", "File to which --extract writes the part."),
    REPORT,
    *PAGE,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,) = arguments
    if bool(flags.extract) is not bool(flags.output):
        raise usage_error(
            "--extract and --output must be used together",
            "Give both the part to extract and the file to write.",
        )
    if is_page_wanted(flags) and (flags.extract or flags.dump):
        raise usage_error(
            "--extract and --dump cannot be combined with --html or --model_explorer, which always show the "
            "whole file",
            "Leave out --extract and --dump.",
        )
    if flags.extract:
        size = extract(path, flags.extract, flags.output)
        print_lines([f"Wrote {flags.output}: {size_text(size)}"], sys.stdout)
    elif flags.dump:
        from litert.model.dump import dump

        with read_model(path) as model:
            print_text(dump(model).rstrip(), sys.stdout)
    else:
        check_pages(flags, [path])
        inspection = inspect_file(path)
        write_pages(flags, lambda: inspect_page(inspection))
        inspection.show(flags.report)
    return 0


COMMAND = Command(
    "FILE\nShows the contents of a compiled file: the vendor, the SoC model, the NPU calls, the "
    "byte code and the assets. The command also shows a digest of the byte code and of each asset.",
    _FLAGS,
    _run,
    num_arguments=1,
)
