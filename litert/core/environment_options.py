"""Options of an environment, shared by all that lives in it (LiteRT's `LiteRtEnvironmentOptions`)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class EnvironmentOptions:
    """Where libraries are; field names are those of `ai_edge_litert.environment`.

    Attributes:
      runtime_path: folder of the runtime library; kept for stock's programs, not used here.
      compiler_plugin_path: folder searched for compiler plugins, beside entry points.
      dispatch_library_path: folder searched for dispatch tables, beside entry points.
    """

    runtime_path: str | None = None
    compiler_plugin_path: str = ""
    dispatch_library_path: str = ""
