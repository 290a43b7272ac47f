"""The reference of an op: a function in the user's Python file that computes the expected outputs."""

from __future__ import annotations

import inspect
import linecache
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from litert.core.counts import count_text, names_text
from litert.core.errors import LiteRtError, describe, last_line
from litert.core.input_file import check_input
from litert.core.option import Flag
from litert.core.status import Status
from litert.core.suggestion import did_you_mean

from .command_line import usage_error

if TYPE_CHECKING:
    from litert.model.graph import Op


REFERENCE_FUNCTION = Flag(
    "reference_function",
    (),
    "A Python function that computes the reference results of a custom or builtin op, as "
    "op,file.py:function. The function has the same parameters as for `litert-npu layer run "
    "--reference`. May be repeated.",
    is_repeated=True,
)


def read_op_function(text: str, flag: str) -> tuple[str, str]:
    """Returns an op's name and its function, from a text `op,file.py:function`."""
    op, _, function = text.partition(",")
    if not op or not function:
        raise usage_error(
            f"--{flag}={text} does not contain {'a function' if op else 'an op'}",
            f"Write --{flag}=op,file.py:function.",
        )
    return op, function


def load_functions(texts: Sequence[str]) -> dict[str, Callable[[Op, Sequence[Any]], list[Any]]]:
    """Returns the functions that `--reference_function` gives, by op name."""
    named = [read_op_function(text, REFERENCE_FUNCTION.name) for text in texts]
    return {op: load_reference(function) for op, function in named}


def load_reference(text: str) -> Callable[[Op, Sequence[Any]], list[Any]]:
    """Returns a callable for `file.py:function`; the callable takes an op and all its inputs, including constants.

    The user's function receives the inputs and the op's options. A function with a parameter `quantization` also
    receives the quantization of the tensors. The function must return one array for each output of the op; for one
    output, it may return the array itself.
    """
    from runpy import run_path

    path, _, name = text.rpartition(":")
    if not path.endswith(".py"):
        raise usage_error(
            f"the reference function is '{text}', but must have the form file.py:function",
            "Give a Python file and the name of a function in this file, as in ref.py:softmax.",
        )
    check_input(path)
    try:
        # The module gets no name of its own, since the file may import a module with the same name.
        module = run_path(os.path.abspath(path))
    except Exception as error:
        raise _reference_error("the file cannot be imported", error, path) from error
    function: Callable[..., Any] | None = module.get(name)
    if not callable(function):
        own = [key for key, value in module.items() if isfunction(value) and key[0] != "_"]
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"the file has no function '{name}'",
            path,
            did_you_mean(
                name,
                own,
                f"{names_text('function', own)}.",
            ),
        )
    return partial(_call, function, name, path)


def _call(
    function: Callable[..., Any], name: str, path: str, op: Op, inputs: Sequence[Any]
) -> list[Any]:
    import numpy as np

    from litert.model.custom_options import find_flexbuffer_options
    from litert.model.quantized_tensor import OpQuantization

    data = bytes(op.custom_options or b"")
    found = find_flexbuffer_options(data)
    options = found if isinstance(found, Mapping) else data
    try:
        takes_it = "quantization" in inspect.signature(function).parameters
    except ValueError:  # a function of NumPy
        takes_it = False
    try:
        more = {"quantization": OpQuantization.of(op)} if takes_it else {}
        result = function(inputs, options, **more)
    except Exception as error:
        hint = ""
        if isinstance(options, bytes) and isinstance(error, TypeError):
            hint = (
                f"The function got the op's options as {count_text(len(options), 'byte')}, because they are not a "
                "FlexBuffer map. If you set --inputs, also set --options."
            )
        raise _reference_error(f"reference function '{name}' fails", error, path, hint) from error
    hint = "Return one array for each output of the op."
    if result is None:
        what = f"reference function '{name}' returns None"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)
    arrays = list(result) if isinstance(result, (list, tuple)) else [result]
    if len(arrays) != len(op.outputs):
        returned, wanted = count_text(len(arrays), "array"), count_text(len(op.outputs), "output")
        what = f"reference function '{name}' returns {returned}, but the op has {wanted}"
        raise LiteRtError(Status.INVALID_ARGUMENT, what, path, hint)
    return [np.asarray(array) for array in arrays]


def _reference_error(what: str, error: Exception, path: str, hint: str = "") -> LiteRtError:
    """Returns an error for an exception from the author's Python file, with the line that failed."""
    own = os.path.abspath(path)
    last = last_line(error, own.__eq__)
    said = describe(error)
    if not last and isinstance(error, SyntaxError) and error.filename == own:
        last = f"{own}:{error.lineno}"
        said = f"{type(error).__name__}: {error.msg}"  # the error's text also has the file and line
    number = last.rpartition(":")[2]
    linecache.checkcache(own)
    line = linecache.getline(own, int(number)).strip() if last else ""
    shown = f"{what}: {said}" + (f"\n{number:>5} | {line}\n" if line else "")
    return LiteRtError(Status.INVALID_ARGUMENT, shown, f"{path}:{number}" if last else path, hint)
