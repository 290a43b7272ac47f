"""The author's reference of a layer, in NumPy: a function in a Python file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from litert.core.errors import LiteRtError, describe
from litert.core.status import Status

from ..command_line import usage_error


def load_reference(text: str) -> Callable[..., Any]:
    """The function of `file.py:function`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if there is no such function; NOT_FOUND; INVALID_ARGUMENT, for a file that
        cannot be imported.
    """
    path, _, name = text.rpartition(":")
    function: Callable[..., Any] | None = getattr(_load(path, text), name, None)
    if not callable(function):
        raise LiteRtError(Status.INVALID_TOOL_CONFIG, f"no function '{name}' in it", path)
    return function


def call_reference(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    options: Mapping[str, Any] | bytes,
    num_outputs: int,
) -> list[Any]:
    """Calls `function(inputs, options)`.

    Args:
      function: the author's.
      inputs: arrays of all inputs of the op, constants included; None for one that is left out.
      options: the entries of a FlexBuffer map, or the bytes of a C struct.
      num_outputs: that it must return; one may come alone.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if it fails, or returns something else.
    """
    import numpy as np

    where = f"the reference {function.__name__}"
    try:
        result = function(inputs, options)
    except Exception as error:
        what = f"the reference fails: {describe(error)}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where) from error
    arrays = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(arrays) != num_outputs:
        what = f"the reference returns {len(arrays)} arrays, the op has {num_outputs} outputs"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, where)
    return [np.asarray(array) for array in arrays]


def _load(path: str, text: str) -> Any:
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.endswith(".py"):
        raise usage_error(f"--reference={text}", "Write it as file.py:function.")
    if not os.path.isfile(path):
        raise LiteRtError(Status.NOT_FOUND, "no such file", path)
    name = os.path.splitext(os.path.basename(path))[0]
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f"it cannot be imported: {describe(error)}", path
        ) from error
    return module
