"""Options of an environment, which all models in the environment share (LiteRT's `LiteRtEnvironmentOptions`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvironmentOptions:
    """Directories of libraries and of the compile cache.

    The field names are those of `ai_edge_litert.environment`.

    Attributes:
      runtime_path: Directory of the runtime library, for programs written for stock LiteRT; this
        project ignores the value.
      compiler_plugin_path: Directory that is searched for compiler plugins, besides entry points.
      dispatch_library_path: Directory that is searched for dispatch tables, besides entry points.
      compiler_cache_dir: Directory for the models that are compiled when they are loaded; "" for no
        cache. LiteRT's C++ environment has this option and the next one; `ai_edge_litert` lacks
        both.
      compiler_cache_max_total_size: Largest size of the cache directory, in bytes; the cache
        removes the least recently used models first.
    """

    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""
    compiler_cache_dir: str = ""
    compiler_cache_max_total_size: int = 1 << 30
