"""Calls functions of an extension for one op; errors name the op, the function and the file."""

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
    """Wraps a call of an extension's function, such as `SoftMax.infer`, for a node; `file` may be "".

    Any exception except KeyboardInterrupt becomes an error with the line in the file. `status` is the status for
    exceptions that are not a `LiteRtError`.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # an extension's code may raise anything
        what, where, hint = describe(error), "", find_counterpart(error) or "Fix the extension."
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
    """Describes an op for messages, with the file that defines the op."""
    source = node.graph.model.source
    return f"op {node}{f' of {source.path}' if source else ''}"
