"""Names frames after what they work on: `faulthandler` shows that in the stack of a crash."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])

_MOST = 400
"""Characters; `faulthandler` cuts what is longer than 500."""


def name_frames(method: _Method, name: str) -> _Method:
    """A bound method whose frames are called `name` behind its own; a call of it costs what it did before.

    What is no method in Python stays as it is.
    """
    function = getattr(method, "__func__", None)
    if not isinstance(method, MethodType) or not isinstance(function, FunctionType):
        return method
    text = f"{function.__name__} {name}"
    text = text if len(text) <= _MOST else f"{text[:_MOST]}..."
    made = FunctionType(
        function.__code__.replace(co_name=text),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    made.__kwdefaults__ = function.__kwdefaults__
    named: Any = MethodType(made, method.__self__)
    return named  # type: ignore[no-any-return]
