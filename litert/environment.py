"""Folders of vendors' code, which models share; the names are those of `ai_edge_litert.environment`."""

from __future__ import annotations

import os
from dataclasses import replace

from litert.core.environment_options import EnvironmentOptions

__all__ = ["Environment", "EnvironmentOptions"]


class Environment:
    """Paths that models share. A context manager: after its end, no model can be loaded in the environment."""

    def __init__(self, options: EnvironmentOptions) -> None:
        """Stores the paths. Programs call `create` instead."""
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
          options: All paths together, or the runtime path alone.
          runtime_path: Path that programs for stock LiteRT set. Nothing is loaded from this path.
          compiler_plugin_path: Folder of compiler plugins, searched beside the installed plugins.
          dispatch_library_path: Folder of dispatch tables and libraries, searched beside the installed ones.
          compiler_cache_dir: Folder that keeps the models compiled at load. The folder is created if it does not
            exist.

        Raises:
          ValueError: If a path is given twice.
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
        """Closes the environment for new models. Loaded models stay usable."""
        self._is_open = False

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
