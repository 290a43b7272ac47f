"""What `apply_plugin` is told: by its flags, and by programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from compiler_plugin.isolation.hosting import Hosting
from compiler_plugin.transform_options import TransformOptions
from litert.core.compiler_options import CompilerOptions, check_is_list
from litert.core.errors import LiteRtError
from litert.core.option import Flag, Goes, Section, option
from litert.core.status import Status


def _without_blanks(folders: Sequence[str]) -> list[str]:
    return [folder for folder in folders if folder]


def _parse_indices(texts: Sequence[str]) -> list[int]:
    for text in texts:
        if not text.strip().isdecimal():
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"--subgraphs has '{text}', which is no index",
                hint="Write it as 0,2.",
            )
    return [int(text) for text in texts]


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What `apply_plugin` is told by its flags.

    Attributes:
      soc_manufacturer: whose NPU; "" for the reference vendor.
      soc_model: which of its NPUs; "" for the plugin's first.
      libs: folders searched for plugins, beside what is installed.
      subgraphs: indices of those to compile; none for all.
      require_npu: names of ops that must not stay on the CPU, or `all`.
      compiler: what the plugin is told.
      transform: what is done to the model before the plugin sees it; None for nothing.
      hosting: how a plugin in a shared library runs.
      require_runnable: whether an op that neither the NPU nor stock LiteRT's CPU runs is an error.
      digest_weights: whether a compiled file larger than 64 MiB gets a digest of all of it, and a seal.
    """

    soc_manufacturer: str = option(
        Flag("soc_manufacturer", "", "Whose NPU; by default the reference vendor's."),
        Section.TARGET,
        Goes.LOAD,
    )
    soc_model: str = option(
        Flag("soc_model", "", "Which NPU; by default the vendor's first."),
        Section.TARGET,
        Goes.LOAD,
    )
    libs: Sequence[str] = option(
        Flag("libs", (), "Folders with plugins, beside those that are installed."),
        Section.PLUGINS,
        read=_without_blanks,
    )
    subgraphs: Sequence[int] = option(
        Flag("subgraphs", (), "Indices of the subgraphs to compile; all by default."),
        Section.PARTITIONS,
        Goes.MANIFEST,
        read=_parse_indices,
    )
    require_npu: Sequence[str] = option(
        Flag("require_npu", (), "Ops that must not stay on the CPU, or all."),
        Section.LAYERS,
        Goes.MANIFEST,
    )
    compiler: CompilerOptions = field(default_factory=CompilerOptions)
    transform: TransformOptions | None = None
    hosting: Hosting = field(default_factory=Hosting)
    require_runnable: bool = option(
        Flag(
            "require_runnable",
            False,
            "Fails where an op is left that neither the NPU nor stock LiteRT's CPU runs.",
        ),
        Section.LAYERS,
        Goes.MANIFEST,
    )

    digest_weights: bool = option(
        Flag(
            "digest_weights",
            False,
            "Take a digest also of a file larger than 64 MiB, so that damaged weights are noticed.",
        ),
        Section.TARGET,
    )

    def __post_init__(self) -> None:
        check_is_list("libs", self.libs)
        check_is_list("require_npu", self.require_npu)

    @property
    def asset_paths(self) -> Sequence[str]:
        """The files that the plugin reads for the user: assets, and edited IR."""
        infos = self.compiler.custom_op_infos
        return [*(info.asset_path for info in infos), *self.compiler.replace_ir.values()]
