"""Options of an environment, shared by all that lives in it (LiteRT's `LiteRtEnvironmentOptions`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvironmentOptions:
    """Where libraries are; field names are those of `ai_edge_litert.environment`.

    Attributes:
      runtime_path: folder of the runtime library; kept for stock's programs, not used here.
      compiler_plugin_path: folder searched for compiler plugins, beside entry points.
      dispatch_library_path: folder searched for dispatch tables, beside entry points.
      compiler_cache_dir: folder in which models that are compiled at load are kept; "" for none. This and the next
        are options of LiteRT's C++ environment, which `ai_edge_litert` does not have.
      compiler_cache_max_total_size: of that folder, in bytes; the least recently used models go.
    """

    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""
    compiler_cache_dir: str = ""
    compiler_cache_max_total_size: int = 1 << 30
