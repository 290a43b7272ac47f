"""Decides where plugins run: by default, shared libraries run in child processes, Python plugins in this process.

Options change these defaults. Starting a child process takes as long as importing the compiler in this process.
Therefore the child process is started first, so that it starts while this process imports the compiler.
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
"""Function that loads a plugin from a shared library into the process that calls the function."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Hosting:
    """Options that decide in which process plugins run.

    Attributes:
      timeout_s: Time limit for each call to a plugin in a child process, in seconds.
      in_process: Whether plugins in shared libraries run in this process, which ends if a plugin crashes; if
        False, each library runs in a child process.
      isolated: Whether Python plugins also run in child processes.
      memory_mib: Memory limit of each child process, in MiB; 0 means no limit.
      started: Child processes that were started ahead of time, by the path of their library.
    """

    timeout_s: float = option(
        Flag(
            "plugin_timeout",
            600.0,
            "Time limit for each call to a plugin that runs in its own process, in seconds.",
            least=0.001,
            is_duration=True,
        ),
        Section.PLUGINS,
    )
    in_process: bool = option(
        Flag(
            "plugin_in_process",
            False,
            "By default, a plugin that is a shared library runs in its own process. With this "
            "flag, the plugin runs in the command's process, and a crash of the plugin ends the "
            "command.",
        ),
        Section.PLUGINS,
    )
    isolated: bool = option(
        Flag(
            "isolate_plugin",
            False,
            "By default, a Python plugin runs in the command's process. With this flag, the "
            "plugin runs in its own process.",
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
        """Starts a child process for each plugin library in folders and subfolders, without waiting for it.

        Raises:
          LiteRtError: NOT_FOUND, if a folder does not exist or is not a folder.
        """
        from litert.host.extensions import find_files  # here: --help must not wait for it

        for path in find_files(folders, [SHARED_LIBRARY]):
            if not self.in_process and path not in self.started:
                self.started[path] = self._start(path, NATIVE_LOADER)

    def take(self, path: str, loader: str = NATIVE_LOADER) -> PluginProcess:
        """Returns the process that `start` started for a library, or starts one; the caller owns the process."""
        return self.started.pop(path, None) or self._start(path, loader)

    def _start(self, path: str, loader: str) -> PluginProcess:
        return PluginProcess(path, self.timeout_s, loader, self.memory_mib * _MIB)


class PluginProcess:
    """A child process that loads a plugin, and the shared file for the exchange of bytes with this process.

    The child process ends when this object is garbage-collected.
    """

    def __init__(
        self, path: str, timeout_s: float, loader: str = NATIVE_LOADER, memory_bytes: int = 0
    ) -> None:
        """Starts the child process without waiting for it; `load` waits.

        Args:
          path: Path of the plugin's file; if the plugin is an installed package, `module:attribute`.
          timeout_s: Time limit of each call, in seconds.
          loader: Function that creates the plugin's factory from the path, in the form `package.module:function`;
            the child process calls the function.
          memory_bytes: Memory limit of the child process, in bytes; 0 means no limit.
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
        """The object through which this process exchanges bytes with the child process."""
        from compiler_plugin.isolation.exchange import Exchange

        return Exchange(self._service.fd)

    def load(self) -> Any:
        """Waits until the child process has loaded the plugin, and returns the plugin's description of itself.

        Raises:
          LiteRtError: Any error of the plugin's loader; RUNTIME_FAILURE, if the child process crashes;
            TIMEOUT_EXPIRED, if it hangs.
        """
        return self.ask("load", self._load)
