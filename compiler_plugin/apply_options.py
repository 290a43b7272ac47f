"""Options of `apply_plugin`, which flags or programs set."""

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
                f"--subgraphs has '{text}', which is not an index",
                hint="Write indices with commas between them: 0,2.",
            )
    return [int(text) for text in texts]


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """Options for compiling a model; the command `apply_plugin` has a flag for each.

    Attributes:
      soc_manufacturer: Vendor of the NPU; "" for the reference vendor.
      soc_model: SoC model; "" for the first model of the vendor's plugin.
      libs: Folders with plugins, searched beside the installed plugins.
      subgraphs: Indices of the subgraphs to compile; empty for all.
      require_npu: Names of ops that must not stay on the CPU, or `all`.
      compiler: Options for the vendor's plugin.
      transform: Transformations of the model before the plugin gets the model; None for no transformation.
      hosting: Processes and limits in which plugins run.
      require_runnable: Whether compiling fails if neither the NPU nor stock LiteRT's CPU runs an op.
      digest_weights: Whether a compiled file larger than 64 MiB gets a digest of the whole file, and a seal.
    """

    soc_manufacturer: str = option(
        Flag("soc_manufacturer", "", "Name of the NPU's vendor. By default the reference vendor."),
        Section.TARGET,
        Goes.LOAD,
    )
    soc_model: str = option(
        Flag(
            "soc_model",
            "",
            "Name of the SoC model, as the vendor's plugin lists it. By default the first of "
            "the list.",
        ),
        Section.TARGET,
        Goes.LOAD,
    )
    libs: Sequence[str] = option(
        Flag(
            "libs",
            (),
            "Folders with compiler plugins, in addition to the installed plugins, "
            "separated by commas.",
        ),
        Section.PLUGINS,
        read=_without_blanks,
    )
    subgraphs: Sequence[int] = option(
        Flag(
            "subgraphs",
            (),
            ("Indices of the subgraphs to compile, as 0,2. By default all subgraphs are compiled."),
        ),
        Section.PARTITIONS,
        Goes.MANIFEST,
        read=_parse_indices,
    )
    require_npu: Sequence[str] = option(
        Flag(
            "require_npu",
            (),
            "Names of ops that must go to the NPU, separated by commas, or all. The command "
            "fails if one of these ops stays on the CPU.",
        ),
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
            "Fail if the compiled model contains an op that neither the NPU nor stock LiteRT's "
            "CPU kernels can run.",
        ),
        Section.LAYERS,
        Goes.MANIFEST,
    )

    digest_weights: bool = option(
        Flag(
            "digest_weights",
            False,
            "Store a digest of the file even if it is larger than 64 MiB, so that a load notices "
            "damaged weights.",
        ),
        Section.TARGET,
    )

    def __post_init__(self) -> None:
        check_is_list("libs", self.libs)
        check_is_list("require_npu", self.require_npu)

    @property
    def asset_paths(self) -> Sequence[str]:
        """Paths of the user's files that the plugin reads: assets and edited IR."""
        infos = self.compiler.custom_op_infos
        return [*(info.asset_path for info in infos), *self.compiler.replace_ir.values()]
