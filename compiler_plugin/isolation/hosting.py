"""Decides where plugins run: plugins in shared libraries in a child process each, Python plugins in this process.

Options change either default. A child process takes as long to start as the import of the compiler in this
process; starting the child first halves the total time.
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
"""Loader of plugins in shared libraries, in this process or in a child process."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Hosting:
    """Options for where plugins run.

    Attributes:
      timeout_s: Time limit of each call into a child process, in seconds.
      in_process: Whether plugins in shared libraries run in this process, where a crash ends the process;
        otherwise each of them runs in a child process.
      isolated: Whether Python plugins run in child processes too.
      memory_mib: Limit of a child process's data in memory, in MiB; 0 means no limit.
      started: Child processes that were started ahead of time, by the path of their library.
    """

    timeout_s: float = option(
        Flag(
            "plugin_timeout",
            600.0,
            "Time limit of each call of a plugin that runs in its own process, in seconds.",
            least=0.001,
            is_duration=True,
        ),
        Section.PLUGINS,
    )
    in_process: bool = option(
        Flag(
            "plugin_in_process",
            False,
            "Run a plugin that is a shared library in this process. A crash of the plugin then "
            "ends the command.",
        ),
        Section.PLUGINS,
    )
    isolated: bool = option(
        Flag(
            "isolate_plugin",
            False,
            "Run a Python plugin in its own process too. A plugin that is a shared library "
            "always runs in its own process.",
        ),
        Section.PLUGINS,
    )
    memory_mib: int = option(
        Flag(
            "plugin_memory",
            0,
            "Memory limit of a plugin that runs in its own process, in MiB. 0 means no limit.",
            least=0,
        ),
        Section.PLUGINS,
    )
    started: dict[str, PluginProcess] = field(default_factory=dict, compare=False, repr=False)

    def start(self, folders: Sequence[str]) -> None:
        """Starts a child process for each library in the folders and below them, without waiting for it.

        Raises:
          LiteRtError: NOT_FOUND, if a folder does not exist or is not a folder.
        """
        from litert.host.extensions import find_files  # here: --help must not wait for it

        for path in find_files(folders, [SHARED_LIBRARY]):
            if not self.in_process and path not in self.started:
                self.started[path] = self._start(path, NATIVE_LOADER)

    def take(self, path: str, loader: str = NATIVE_LOADER) -> PluginProcess:
        """Returns the process that was started for a library, or a new process; the caller owns the process."""
        return self.started.pop(path, None) or self._start(path, loader)

    def _start(self, path: str, loader: str) -> PluginProcess:
        return PluginProcess(path, self.timeout_s, loader, self.memory_mib * _MIB)


class PluginProcess:
    """A child process that loads a plugin, and the file through which both processes exchange bytes.

    The child process ends when this object is released.
    """

    def __init__(
        self, path: str, timeout_s: float, loader: str = NATIVE_LOADER, memory_bytes: int = 0
    ) -> None:
        """Starts the process without waiting for it; `load` waits.

        Args:
          path: Path of the plugin's file; `module:attribute` for an installed plugin.
          timeout_s: Time limit of each call, in seconds.
          loader: Function as `package.module:function`; the child process calls the function with the path to make
            the plugin's factory.
          memory_bytes: Limit of the process's data in memory, in bytes; 0 means no limit.
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
        """The exchange of bytes with the child process, on the side of this process."""
        from compiler_plugin.isolation.exchange import Exchange

        return Exchange(self._service.fd)

    def load(self) -> Any:
        """Waits until the child process has loaded the plugin, and returns the plugin's description of itself.

        Raises:
          LiteRtError: The error of loading; RUNTIME_FAILURE or TIMEOUT_EXPIRED, if the child process crashes or
            hangs.
        """
        return self.ask("load", self._load)
