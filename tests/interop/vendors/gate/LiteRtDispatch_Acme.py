"""Gate: Acme's driver, but its first context waits until the program lets it continue or fail."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from litert.host.extensions import load_file

_PROGRAM: Any = sys.modules["__main__"]
_EXAMPLE = Path(__file__).resolve().parents[4] / "examples/03_vendor/LiteRtDispatch_Acme.py"
_Acme: Any = type(load_file(str(_EXAMPLE), "DISPATCH"))


class GateDispatch(_Acme):  # type: ignore[misc]  # an example is loaded by its path
    """A dispatch table that waits for the program, once."""

    def invocation_context_create(self, *arguments: Any) -> Any:
        if not _PROGRAM.inside.is_set():
            _PROGRAM.inside.set()
            _PROGRAM.may_go_on.wait()
            if _PROGRAM.fails:
                raise ValueError("the program says so")
        return super().invocation_context_create(*arguments)


DISPATCH = GateDispatch()
