"""Puts names of objects into stack frames, so that `faulthandler` shows the names in a crash's stack trace."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

_Method = TypeVar("_Method", bound=Callable[..., Any])

_MOST = 400
"""Maximum length of a name, in characters; `faulthandler` truncates names with more than 500 characters."""


def name_frames(method: _Method, name: str) -> _Method:
    """Returns a bound method whose stack frames have `name` after the method's name; calls are not slower.

    A callable that is not a Python method is returned unchanged.
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
