"""A compiler plugin's functions as the checks call them: each call is traced, and answers what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler_plugin.native.library import FUNCTIONS, GET_REFUSAL
from litert.abi.conformance.call_trace import CallTrace
from litert.abi.conformance.checks import BrokenRuleError
from litert.abi.conformance.last_error import LastError
from litert.abi.conformance.libraries import find_symbol, open_library
from litert.abi.conformance.statuses import is_status, status_name
from litert.abi.definitions import ffi
from litert.abi.plugin_loading import plugin_loading_flags


@dataclass(slots=True, eq=False)
class PluginFunctions:
    """What a plugin exports, by name.

    Attributes:
      functions: cffi's function pointers.
      kept: what has to live as long as they do.
      strange: what has answered with a number that is no status, each in a phrase.
      error: what a plugin in Python said last.
    """

    functions: Mapping[str, Any]
    trace: CallTrace
    kept: object = None
    strange: list[str] = field(default_factory=list)
    error: LastError = field(default_factory=LastError)

    def call(self, name: str, *arguments: Any) -> int:
        """Calls a function that answers with a status, which is returned."""
        self.error.forget()
        status = int(self.trace.call(name, self.functions[name], *arguments))
        if not is_status(status):
            self.strange.append(f"{name} answers {status}")
        return status

    def call_plain(self, name: str, *arguments: Any) -> Any:
        """Calls a function that answers with something else, or not at all."""
        return self.trace.call(name, self.functions[name], *arguments)

    def succeed(self, name: str, *arguments: Any) -> None:
        """Calls a function, which must answer Ok."""
        status = self.call(name, *arguments)
        if status:
            raise self.failure(name, status)

    def failure(self, name: str, status: int) -> BrokenRuleError:
        """The finding that a function failed, with what the plugin said of it."""
        return BrokenRuleError(f"{name} answers {status_name(status)}{self.error.told()}")

    def answer(self, name: str, c_type: str, *arguments: Any) -> Any:
        """Calls a function that writes one answer, behind its other arguments."""
        answer = ffi.new(f"{c_type}*")
        self.succeed(name, *arguments, answer)
        return answer[0]


def load_functions(path: str, trace: CallTrace) -> PluginFunctions:
    """Loads a plugin as LiteRT does."""
    library = open_library(path, plugin_loading_flags(), trace)
    found = {name: find_symbol(library, name) for name in (*FUNCTIONS, GET_REFUSAL)}
    return PluginFunctions(found, trace, library)


def text_of(pointer: Any, what: str, limit: int = 0) -> bytes:
    """Text that the plugin gave.

    Args:
      pointer: to it.
      what: gave it, for the finding.
      limit: the most bytes; 0 for any number, none too.

    Raises:
      BrokenRuleError: it is NULL, too short or long, or not UTF-8.
    """
    if not pointer:
        raise BrokenRuleError(f"{what} gives NULL, where text belongs")
    data: bytes = ffi.string(pointer)
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BrokenRuleError(f"{what} gives {data!r:.80}, which is no text in UTF-8") from None
    if limit and not 1 <= len(data) <= limit:
        raise BrokenRuleError(f"{what} gives {data!r:.80}, of {len(data)} bytes")
    return data
