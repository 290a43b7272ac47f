"""Calls functions of extensions, so that errors name the op, the function and the extension's file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager

from compiler_plugin.transformations.counterparts import find_counterpart
from compiler_plugin.transformations.node import Node
from litert.core.errors import LiteRtError, describe
from litert.core.status import Status
from litert.host.extensions import find_place


@contextmanager
def extension_call(
    function: str, file: str, node: Node, status: Status = Status.INVALID_TRANSFORMATION
) -> Iterator[None]:
    """Adds op, function name and file to errors in an extension's function such as `SoftMax.infer`.

    Every exception except KeyboardInterrupt becomes a LiteRtError that names the line in the extension's file.
    `status` is the status for exceptions that are not a `LiteRtError`. `file` may be "".
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # an extension's code may raise anything
        what, where, hint = describe(error), "", find_counterpart(error) or f"Fix {function}."
        if isinstance(error, LiteRtError):
            status, what, where, hint = error.status, error.what, error.where, error.hint
        is_python = file.endswith(".py")  # ops of a mapping file have no lines of their own
        place = (is_python and find_place(error, os.path.dirname(file))) or file
        parts = [f"{function} of {place}" if place else function, describe_node(node)]
        if where and where not in parts:
            parts.append(where)
        raise LiteRtError(status, what, ", ".join(parts), hint) from error


def extension_file(cls: type) -> str:
    """Returns the file that defines a class; "" if there is no file."""
    try:
        return inspect.getsourcefile(cls) or ""
    except (TypeError, OSError):
        return ""


def describe_node(node: Node) -> str:
    """Describes an op, and the file that defines the op, for error messages."""
    source = node.graph.model.source
    return f"op {node}{f' of {source.path}' if source else ''}"
