"""Writes what the passes make of the IR, for people to read, and for `litert-npu opt` to take up again."""

from __future__ import annotations

import os

from xdsl.dialects.builtin import ModuleOp

from litert.core.compiler_options import DumpOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.compiler.ir.printer import print_ir
from vendor_reference.compiler.ir.verification import check_ir
from vendor_reference.compiler.pass_pipeline import PIPELINE, check_pass_name

ALL = "all"
IMPORT = "import"
"""What the IR is called before any pass has run."""


def check_dump_options(options: DumpOptions) -> None:
    """Refuses a pass that there is not.

    Raises:
      LiteRtError: NOT_FOUND, which lists the passes there are.
    """
    if options.ir_after:
        check_pass_name(options.ir_after, (ALL, IMPORT))


class IrDump:
    """The files of one compilation: `00_import.mlir`, then `NN_<pass>.mlir`, by place in the pipeline."""

    def __init__(self, options: DumpOptions) -> None:
        """Makes the folder.

        Raises:
          LiteRtError: NOT_FOUND, for a pass that there is not; FILE_IO.
        """
        check_dump_options(options)
        self._options = options
        self._numbers = {name: number for number, name in enumerate((IMPORT, *PIPELINE))}
        self.paths: list[str] = []
        try:
            os.makedirs(options.folder, exist_ok=True)
        except OSError as error:
            raise _file_error(error, options.folder) from error

    def write(self, name: str, module: ModuleOp) -> None:
        """Writes the module, if the user wants to see it after this pass; then verifies it.

        Raises:
          LiteRtError: FILE_IO; INVALID_IR_TYPE, where the pass has left what is wrong.
        """
        if self._options.ir_after not in (name, ALL):
            return
        path = os.path.join(self._options.folder, f"{self._numbers[name]:02}_{name}.mlir")
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(print_ir(module))
        except OSError as error:
            raise _file_error(error, path) from error
        self.paths.append(path)
        check_ir(module, after=name)

    def note(self) -> str:
        """A sentence for the report."""
        names = [os.path.basename(path) for path in self.paths]
        return f"IR is written to {self._options.folder}: {', '.join(names)}."


def _file_error(error: OSError, path: str) -> LiteRtError:
    return LiteRtError(Status.FILE_IO, f"cannot write: {error.strerror}", path)
