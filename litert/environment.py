"""Folders of vendors' code that several models share; all names are as in `ai_edge_litert.environment`."""

from __future__ import annotations

import os
from dataclasses import replace

from litert.core.environment_options import EnvironmentOptions

__all__ = ["Environment", "EnvironmentOptions"]


class Environment:
    """The folders of compiler plugins, of dispatch tables, and of the cache for compiled models.

    Several models can share an environment. If the environment is used as a context manager, it is closed at the
    end of the `with` block. A closed environment cannot load models.
    """

    def __init__(self, options: EnvironmentOptions) -> None:
        """Stores the paths. Programs call `create` instead of this constructor."""
        self._options = options
        self._is_open = True

    @classmethod
    def create(
        cls,
        *,
        options: EnvironmentOptions | str | None = None,
        runtime_path: str | None = None,
        compiler_plugin_path: str = "",
        dispatch_library_path: str = "",
        compiler_cache_dir: str = "",
    ) -> Environment:
        """Creates an environment.

        Args:
          options: All paths as `EnvironmentOptions`, or only the runtime path as a string.
          runtime_path: Path of stock LiteRT's runtime library. The argument is ignored, and exists only because
            programs for stock LiteRT pass it.
          compiler_plugin_path: Folder of compiler plugins, searched in addition to the installed plugins.
          dispatch_library_path: Folder of dispatch tables (Python files or shared libraries), searched in addition
            to the installed tables.
          compiler_cache_dir: Cache folder for models that are compiled when they are loaded. The folder is created
            if it does not exist.

        Raises:
          ValueError: If a path is given although `options` is an `EnvironmentOptions`, or if the runtime path is
            given twice.
        """
        if isinstance(options, str):
            if runtime_path is not None:
                raise ValueError("runtime_path was provided twice.")
            options, runtime_path = None, options
        given = EnvironmentOptions(
            runtime_path, compiler_plugin_path, dispatch_library_path, compiler_cache_dir
        )
        if options is None:
            options = given
        elif given != EnvironmentOptions():
            raise ValueError("Pass either options or environment path shortcuts.")
        runtime_path = options.runtime_path or os.path.dirname(os.path.abspath(__file__))
        return cls(replace(options, runtime_path=runtime_path))

    @property
    def options(self) -> EnvironmentOptions:
        """The paths of the environment."""
        return self._options

    def check_open(self) -> None:
        """Checks that the environment is not closed.

        Raises:
          ValueError: If the environment is closed, as in stock LiteRT.
        """
        if not self._is_open:
            raise ValueError("Environment is no longer valid")

    def close(self) -> None:
        """Closes the environment, so that it loads no more models. Models that are already loaded stay usable."""
        self._is_open = False

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
