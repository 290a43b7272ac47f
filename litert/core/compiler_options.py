"""Options that the host passes to a compiler plugin (LiteRT's `LiteRtCompilerOptions`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from litert.core.errors import LiteRtError
from litert.core.option import Flag, Goes, Section, option
from litert.core.status import Status

DEFAULT_MANUFACTURER = "Reference"

PARTITION_STRATEGIES = ("default", "weakly_connected")
"""Strategies that group ops into partitions: the plugin's own way, or the largest groups that tensors connect.

The names and their order are stock LiteRT's.
"""

CUSTOM_LAYERS_VARIABLE = "LITERT_NPU_CUSTOM_LAYERS"

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_TO_PLUGIN = Goes.ENVIRONMENT | Goes.PAYLOAD


@dataclass(frozen=True, slots=True)
class CustomOpInfo:
    """The value of one flag `--npu_custom_op_info=op,path` (guide, section 2).

    Attributes:
      op_name: Custom code of the ops that the asset implements.
      asset_path: Path of the user's asset.
    """

    op_name: str
    asset_path: str

    @classmethod
    def parse(cls, text: str) -> CustomOpInfo:
        """Parses `op,path`; the path may contain commas and spaces, the op's name no comma.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if the comma, the name or the path is missing.
        """
        op_name, comma, asset_path = text.partition(",")
        if not comma or not op_name.strip() or not asset_path:
            missing = "no comma" if not comma else "no op" if not op_name.strip() else "no path"
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"the custom op info {text!r} has {missing}",
                hint="Write it as op_name,path/to/asset.",
            )
        return cls(op_name, asset_path)


def environment_layers() -> Sequence[str]:
    """Returns the paths in the environment variable for layers of all models, which separates paths with `:`."""
    return [p for p in os.environ.get(CUSTOM_LAYERS_VARIABLE, "").split(os.pathsep) if p]


_SHAPES = "(.+?):(N(?:xN)*)(?:,(?!$)|$)"  # names may have `:` and `,`
_SIZE = "[1-9][0-9]*"


def parse_shape_bounds(texts: Sequence[str]) -> dict[str, Sequence[int]]:
    """Parses the texts of `--shape_bounds` the way `parse_shapes` does.

    Each text gives the largest shape of one tensor.
    """
    return parse_shapes(texts, "shape_bounds", "bound")


def write_shapes(shapes: Mapping[str, Sequence[int]]) -> Sequence[str]:
    """Returns the texts from which `parse_shapes` reads these shapes."""
    return [f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items()]


def parse_shapes(
    texts: Sequence[str], flag: str, noun: str, *, may_be_open: bool = False
) -> dict[str, Sequence[int]]:
    """Parses the texts of a flag, each of which gives the shape of one tensor: `input:1x3x300`.

    Error messages call the value `noun`.

    One text may hold several shapes, separated by commas, as a manifest writes them:
    `input:1x3x300,other:4`. A size may be -1 where the flag allows an open dimension.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a text does not give a shape, or two texts give the shape
        of one tensor.
    """
    bounds: dict[str, Sequence[int]] = {}
    pairs: list[tuple[str, str]] = []
    size = f"(?:{_SIZE}|-1)" if may_be_open else _SIZE
    pattern = re.compile(_SHAPES.replace("N", size), re.DOTALL)
    for text in texts:
        found = pattern.findall(text)
        if not found or ",".join(map(":".join, found)) != text:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"--{flag} contains '{text}', which is not a {noun}",
                hint="Write it as input:100x3x300x300.",
            )
        pairs += found
    for name, shape in pairs:
        bound = [int(size) for size in shape.split("x")]
        if bounds.setdefault(name, bound) != bound:
            both = " and ".join("x".join(map(str, b)) for b in (bounds[name], bound))
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"two --{flag} for '{name}': {both}",
                hint=f"Give each tensor one {noun}.",
            )
    return bounds


def parse_replacements(texts: Sequence[str]) -> dict[str, str]:
    """Reads `--replace_ir`.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a text is not an assignment, or two texts name one
        function.
    """
    files: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            what, hint = f"--replace_ir has {text!r}", "Write it as Partition_0=edited.mlir."
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)
        if files.setdefault(name, path) != path:
            what = f"two --replace_ir for '{name}': {files[name]} and {path}"
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint="Give each function one text.")
    return files


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Selects the files that a vendor's compiler writes for people to read.

    Attributes:
      folder: Directory for the files; the compiler makes the directory if it does not exist.
      ir_after: Name of the pass after which the compiler writes the vendor's IR; `all` for every
        pass, "" for none.
      kernels: Whether the compiler writes the source of each kernel, as the kernel compiler gets
        the source.
    """

    folder: str = option(
        Flag(
            "dump_folder",
            "",
            "Folder for the files of the --dump flags. By default the folder is OUTPUT.dump.",
        ),
        Section.DUMP_FOLDER,
        _TO_PLUGIN,
    )
    ir_after: str = option(
        Flag(
            "dump_ir_after",
            "",
            "Name of a pass of the vendor's compiler, or all: the IR after the pass is written "
            "to --dump_folder.",
        ),
        Section.DUMPS,
        _TO_PLUGIN,
    )
    kernels: bool = option(
        Flag(
            "dump_kernels",
            False,
            "Write the source of each kernel, exactly as the OpenCL compiler receives the "
            "source, to --dump_folder.",
        ),
        Section.DUMPS,
        _TO_PLUGIN,
    )


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """The user's settings that a plugin may read.

    Attributes:
      custom_op_infos: Assets of custom ops, in the order of the flags; each op occurs once.
      max_partitions: Largest number of partitions that the host makes; 0 for no limit.
      check_kernels: Whether the plugin builds each kernel once at compile time, to find errors
        early.
      allow_native_assets: Whether machine code from the user's assets may run in this process.
      vendor_options: The plugin's own options, as texts by name.
      custom_layers: Files and directories of layer descriptions for all models. For one op, an
        asset in `custom_op_infos` takes precedence over these descriptions, and these over
        `environment_layers()`.
      asset_root: Directory that must contain all files that assets name; "" for the directory of
        each asset.
      shape_bounds: Largest shapes of tensors with dynamic shapes, by tensor name: inputs, and
        tensors whose bounds the compiler cannot derive.
      dump: Files of the compilation that the plugin writes for people to read.
      partition_strategy: One of `PARTITION_STRATEGIES`.
      taps: Whether the byte code names tensors inside calls, for `invoke_tapped` of the dispatch
        table. This option may make the byte code larger and slower; the results stay the same.
      replace_ir: Files with edited IR of the vendor, by the names of the functions that the plugin
        compiles from these files.
    """

    custom_op_infos: Sequence[CustomOpInfo] = option(
        Flag(
            "npu_custom_op_info",
            (),
            "The asset of an op, as op,path: the file with the op's kernel. Give the flag once "
            "for each op. The path may contain commas and spaces.",
            is_repeated=True,
        ),
        Section.ASSETS,
        Goes.LOAD | Goes.ENVIRONMENT,  # our host passes assets by separate functions
        read=lambda texts: [CustomOpInfo.parse(text) for text in texts],
    )
    max_partitions: int = option(
        Flag(
            "compiler_options_max_partitions",
            0,
            "Maximum number of partitions. The largest partitions go to the NPU, the others stay "
            "on the CPU. 0 means no limit.",
            least=0,
        ),
        Section.PARTITIONS,
        Goes.ENVIRONMENT | Goes.MANIFEST,
    )
    check_kernels: bool = option(
        Flag(
            "check_kernels",
            True,
            "Build each kernel during compilation, so that its build errors appear now and "
            "not at the first load.",
        ),
        Section.LAYERS,
        _TO_PLUGIN | Goes.LOAD | Goes.MANIFEST,
    )
    allow_native_assets: bool = option(
        Flag(
            "allow_native_assets",
            False,
            "Let machine code in assets (.so, .bin) run in this process, with your privileges.",
        ),
        Section.ASSETS,
        _TO_PLUGIN | Goes.LOAD | Goes.MANIFEST,
    )
    vendor_options: Mapping[str, str] = field(default_factory=lambda: _NO_OPTIONS)
    custom_layers: Sequence[str] = option(
        Flag(
            "custom_layers",
            (),
            "A file that describes custom layers, or a folder of such files. The layers apply to "
            "any model that has their ops. May be repeated. The environment variable "
            f"{CUSTOM_LAYERS_VARIABLE} names more files, for ops without a layer in this flag.",
            is_repeated=True,
        ),
        Section.LAYERS,
        Goes.LOAD | Goes.ENVIRONMENT,  # a plugin in C has no layers for any model
    )
    asset_root: str = option(
        Flag(
            "asset_root",
            "",
            "Folder that must contain all files that assets name. By default, an asset may name "
            "only files in its own folder.",
        ),
        Section.LAYERS,
        _TO_PLUGIN | Goes.LOAD,
    )
    shape_bounds: Mapping[str, Sequence[int]] = option(
        Flag(
            "shape_bounds",
            (),
            "The largest shape of a tensor whose shape is dynamic, as input:100x3x300x300. Give "
            "the flag once for each tensor.",
            is_repeated=True,
        ),
        Section.LAYERS,
        _TO_PLUGIN | Goes.LOAD | Goes.MANIFEST,
        default=MappingProxyType[str, Sequence[int]]({}),
        read=parse_shape_bounds,
        write=write_shapes,
    )
    dump: DumpOptions = DumpOptions()
    partition_strategy: str = option(
        Flag(
            "partition_strategy",
            PARTITION_STRATEGIES[0],
            "How ops are grouped into partitions. default: the plugin's way. weakly_connected: "
            "the largest connected groups without a cycle.",
            choices=PARTITION_STRATEGIES,
        ),
        Section.PARTITIONS,
        Goes.MANIFEST,
    )

    taps: bool = option(
        Flag(
            "taps",
            False,
            "Ask the vendor's compiler to keep the names of tensors in the byte code, so that a "
            "debugger can read tensors inside NPU calls.",
        ),
        Section.DUMPS,
        _TO_PLUGIN | Goes.MANIFEST,
    )

    replace_ir: Mapping[str, str] = option(
        Flag(
            "replace_ir",
            (),
            "An edited IR file of --dump_ir_after from which the compiler continues a function, "
            "as Partition_0=edited.mlir. Give the flag once for each function.",
            is_repeated=True,
        ),
        Section.DUMPS,
        Goes.ENVIRONMENT,
        default=MappingProxyType[str, str]({}),
        read=parse_replacements,
        write=lambda files: [f"{name}={path}" for name, path in files.items()],
    )

    def __post_init__(self) -> None:
        check_is_list("custom_layers", self.custom_layers)
        if self.partition_strategy not in PARTITION_STRATEGIES:
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"the partition strategy is {self.partition_strategy!r:.100}",
                hint=f"Use {' or '.join(PARTITION_STRATEGIES)}.",
            )
        seen: dict[str, CustomOpInfo] = {}
        for info in self.custom_op_infos:
            if not isinstance(info, CustomOpInfo):
                raise LiteRtError(
                    Status.INVALID_TOOL_CONFIG,
                    f"custom_op_infos contains {info!r:.100}, which is not a CustomOpInfo",
                    hint="Write CustomOpInfo(op, path).",
                )
            if info.op_name in seen:
                raise LiteRtError(
                    Status.INVALID_TOOL_CONFIG,
                    f"the op '{info.op_name}' has two assets: {seen[info.op_name].asset_path} and "
                    f"{info.asset_path}",
                    hint="Give each op one asset.",
                )
            seen[info.op_name] = info

    def get_num_custom_op_info(self) -> int:
        """`LiteRtGetCompilerOptionsNumCustomOpInfo`: returns the number of custom op infos (guide, section 3)."""
        return len(self.custom_op_infos)

    def get_custom_op_info(self, index: int) -> tuple[str, str]:
        """`LiteRtGetCompilerOptionsCustomOpInfo`: returns an op's name and asset path.

        Raises:
          LiteRtError: INDEX_OOB.
        """
        if not 0 <= index < len(self.custom_op_infos):
            what = f"the custom op info {index} of {len(self.custom_op_infos)}"
            raise LiteRtError(Status.INDEX_OOB, what)
        info = self.custom_op_infos[index]
        return info.op_name, info.asset_path


def check_is_list(name: str, value: Sequence[str]) -> None:
    """Refuses a single text where an option takes a list of texts.

    Python would treat each letter as one text of the list.
    """
    if isinstance(value, str):
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{name} is the text {value!r:.100}, and must be a list of texts",
            hint=f"Write {name}=[{value!r:.100}].",
        )
