"""What models share: where vendors' code is found; names are those of `ai_edge_litert.environment`."""

from __future__ import annotations

import os
from dataclasses import replace

from litert.core.environment_options import EnvironmentOptions

__all__ = ["Environment", "EnvironmentOptions"]


class Environment:
    """An environment; a context manager."""

    def __init__(self, options: EnvironmentOptions) -> None:
        """For `create`, which programs call."""
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
        """Makes an environment.

        Args:
          options: all paths together, or the runtime path alone.
          runtime_path: kept for stock's programs; nothing is loaded from there.
          compiler_plugin_path: folder of compiler plugins, beside those that are installed.
          dispatch_library_path: folder of dispatch tables and libraries, beside those that are installed.
          compiler_cache_dir: folder in which models that are compiled at load are kept; made if it is not there.

        Raises:
          ValueError: if a path is given twice.
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
        """The paths in use."""
        return self._options

    def check_open(self) -> None:
        """Refuses to be used after `close`.

        Raises:
          ValueError: as stock.
        """
        if not self._is_open:
            raise ValueError("Environment is no longer valid")

    def close(self) -> None:
        """Ends it for models to come; those that are loaded go on."""
        self._is_open = False

    def __enter__(self) -> Environment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
