"""Options of `apply_plugin`, set by command-line flags or by a program."""

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
                f"'{text}' is not the index of a subgraph",
                "--subgraphs",
                "Write whole numbers with commas between them, such as 0,2; the first subgraph has index 0.",
            )
    return [int(text) for text in texts]


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """Options for compiling a model; the command `apply_plugin` has a flag for each option.

    Attributes:
      soc_manufacturer: Vendor of the NPU; "" for the reference vendor.
      soc_model: SoC model; "" for the first SoC model that the vendor's plugin lists.
      libs: Folders that are searched for plugins, in addition to the installed plugins.
      subgraphs: Indices of the subgraphs to compile; an empty list selects all subgraphs.
      require_npu: Names of ops that must run on the NPU; the name `all` stands for every op.
      compiler: Options for the vendor's plugin.
      transform: Transformations that change the model before the plugin gets it; None means no transformations.
      hosting: Options that determine the process in which plugins run, and the time and memory limits of the
        plugins.
      require_runnable: Whether compiling fails if the model has an op that neither the NPU nor stock LiteRT's CPU
        kernels can run.
      digest_weights: Whether the compiled file gets a digest of its whole content even if it is larger than 64
        MiB. A file with a digest also gets a seal, which proves that this user has compiled the file.
    """

    soc_manufacturer: str = option(
        Flag(
            "soc_manufacturer", "", "Name of the NPU's vendor. The default is the reference vendor."
        ),
        Section.TARGET,
        Goes.LOAD,
    )
    soc_model: str = option(
        Flag(
            "soc_model",
            "",
            "Name of the SoC model, exactly as the vendor's plugin spells the name. The "
            "default is the first SoC model that the plugin lists.",
        ),
        Section.TARGET,
        Goes.LOAD,
    )
    libs: Sequence[str] = option(
        Flag(
            "libs",
            (),
            "Folders with compiler plugins, separated by commas. The installed plugins can "
            "still be used.",
        ),
        Section.PLUGINS,
        read=_without_blanks,
    )
    subgraphs: Sequence[int] = option(
        Flag(
            "subgraphs",
            (),
            (
                "Indices of the subgraphs to compile, for example 0,2. By default all subgraphs are compiled."
            ),
        ),
        Section.PARTITIONS,
        Goes.MANIFEST,
        read=_parse_indices,
    )
    require_npu: Sequence[str] = option(
        Flag(
            "require_npu",
            (),
            "Names of ops that must run on the NPU, separated by commas; all means every op. The "
            "command "
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
            "Store a digest (hash) of the whole compiled file, even if the file is larger than "
            "64 MiB. With this digest, litert-npu check detects any change of the file, also in "
            "the weights.",
        ),
        Section.TARGET,
    )

    def __post_init__(self) -> None:
        check_is_list("libs", self.libs)
        check_is_list("require_npu", self.require_npu)

    @property
    def asset_paths(self) -> Sequence[str]:
        """Paths of the user's files that the plugin reads: asset files and edited IR files."""
        infos = self.compiler.custom_op_infos
        return [*(info.asset_path for info in infos), *self.compiler.replace_ir.values()]
