"""How plugins run: those in shared libraries each in a process of its own, those in Python in this one.

The user may want either otherwise. Such a process takes as long to start as this one to import its compiler:
started first, it costs half.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from litert.core.option import Flag, Section, option

if TYPE_CHECKING:
    from compiler_plugin.isolation.exchange import Exchange

SHARED_LIBRARY = "libLiteRtCompilerPlugin*.so"

NATIVE_LOADER = "compiler_plugin.native.native_plugin:NativePluginFactory"
"""What loads a shared library, here or in a process of its own."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Hosting:
    """How plugins run.

    Attributes:
      timeout_s: for each call into another process.
      in_process: those in shared libraries in this process, where a crash is its end; otherwise each in one of its
        own.
      isolated: those in Python in processes of their own, too.
      memory_mib: how much data such a process may have in memory; 0 is no limit.
      started: processes that were started ahead of time, by the library's path.
    """

    timeout_s: float = option(
        Flag(
            "plugin_timeout",
            600.0,
            "Seconds that each call of a plugin in a process of its own may take.",
            least=0.001,
            is_duration=True,
        ),
        Section.PLUGINS,
    )
    in_process: bool = option(
        Flag(
            "plugin_in_process",
            False,
            "Run a plugin in a shared library in this process, where a crash is its end.",
        ),
        Section.PLUGINS,
    )
    isolated: bool = option(
        Flag(
            "isolate_plugin",
            False,
            "Run a plugin in Python in a process of its own, as one in a shared library always does.",
        ),
        Section.PLUGINS,
    )
    memory_mib: int = option(
        Flag(
            "plugin_memory",
            0,
            "The most memory of a plugin in a process of its own, in MiB; 0 is no limit.",
            least=0,
        ),
        Section.PLUGINS,
    )
    started: dict[str, PluginProcess] = field(default_factory=dict, compare=False, repr=False)

    def start(self, folders: Sequence[str]) -> None:
        """Starts a process for each library in folders and below them, and waits for none.

        Raises:
          LiteRtError: NOT_FOUND, if a folder is missing or is none.
        """
        from litert.host.extensions import find_files  # here: --help must not wait for it

        for path in find_files(folders, [SHARED_LIBRARY]):
            if not self.in_process and path not in self.started:
                self.started[path] = self._start(path, NATIVE_LOADER)

    def take(self, path: str, loader: str = NATIVE_LOADER) -> PluginProcess:
        """The process that was started for a library, or a new one; the caller's from now on."""
        return self.started.pop(path, None) or self._start(path, loader)

    def _start(self, path: str, loader: str) -> PluginProcess:
        return PluginProcess(path, self.timeout_s, loader, self.memory_mib * _MIB)


class PluginProcess:
    """A child process that loads a plugin, and the bytes that it has in common with this one.

    It ends when nobody has it.
    """

    def __init__(
        self, path: str, timeout_s: float, loader: str = NATIVE_LOADER, memory_bytes: int = 0
    ) -> None:
        """Starts the process, and does not wait for it: that is for `load`.

        Args:
          path: of the plugin's file; `module:attribute` of an installed one.
          timeout_s: for each call.
          loader: `package.module:function`, which makes the factory of the path, in the child.
          memory_bytes: how much data the process may have in memory; 0 for no limit.
        """
        from litert.host.service import Service  # here: most plugins are Python

        self._load = [loader, path]
        self._service = Service(
            "compiler_plugin.isolation.served_plugin:serve_plugin",
            timeout_s=timeout_s,
            subject=f"the compiler plugin {os.path.basename(path)}",
            where=path,
            memory_bytes=memory_bytes,
        )
        self._service.begin("load", self._load)
        self.ask = self._service.ask
        self.close = self._service.close

    @cached_property
    def exchange(self) -> Exchange:
        """This process's end of what both have in common."""
        from compiler_plugin.isolation.exchange import Exchange

        return Exchange(self._service.fd)

    def load(self) -> Any:
        """Waits until the plugin is loaded: what it says of itself.

        Raises:
          LiteRtError: that of loading; RUNTIME_FAILURE or TIMEOUT_EXPIRED, where the child did not survive it.
        """
        return self.ask("load", self._load)
