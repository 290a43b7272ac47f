"""Options of an environment, which all models in the environment share (LiteRT's `LiteRtEnvironmentOptions`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvironmentOptions:
    """Directories of compiler plugins, of dispatch tables, and of the cache for compiled models.

    The fields have the same names as in `ai_edge_litert.environment`.

    Attributes:
      runtime_path: Directory of the runtime library; this project ignores the option, which programs for stock
        LiteRT may set.
      compiler_plugin_path: Directory that is searched for compiler plugins, in addition to installed Python
        packages.
      dispatch_library_path: Directory that is searched for dispatch tables, in addition to installed Python
        packages.
      compiler_cache_dir: Cache directory for models that are compiled when they are loaded; "" disables the cache.
        LiteRT's environment in C++ also has this option; the Python package `ai_edge_litert` does not.
      compiler_cache_max_total_size: Largest size of the cache directory, in bytes; if the directory is larger, the
        cache removes the least recently used models. LiteRT's environment in C++ also has this option; the Python
        package `ai_edge_litert` does not.
    """

    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""
    compiler_cache_dir: str = ""
    compiler_cache_max_total_size: int = 1 << 30
