"""Loads plugins in shared libraries: into processes of their own, or into this one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from compiler_plugin.isolation.isolated_plugin import NATIVE_LOADER, IsolatedPluginFactory
from compiler_plugin.plugin import CompilerPluginFactory
from litert.host.child import load_function


def start_loading(
    paths: Sequence[str], timeout_s: float, loader: str = NATIVE_LOADER
) -> Mapping[str, Callable[[], CompilerPluginFactory]]:
    """Starts a process for each library, all at the same time.

    Args:
      paths: of the libraries.
      timeout_s: for each call.
      loader: of the library, in its process.

    Returns:
      By path: what waits for a plugin, and raises a `LiteRtError` where the library is none.
    """
    factories = [IsolatedPluginFactory(path, timeout_s=timeout_s, loader=loader) for path in paths]
    return {factory.path: partial(_await, factory) for factory in factories}


def load_here(path: str) -> CompilerPluginFactory:
    """Loads a library into this process.

    Raises:
      LiteRtError: DYNAMIC_LOADING or WRONG_VERSION.
    """
    factory: CompilerPluginFactory = load_function(NATIVE_LOADER)(path)
    return factory


def _await(factory: IsolatedPluginFactory) -> CompilerPluginFactory:
    factory.load()
    return factory
