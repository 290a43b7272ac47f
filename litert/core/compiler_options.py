"""Options that the host passes to a compiler plugin (LiteRT's `LiteRtCompilerOptions`)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from litert.core.counts import out_of_range
from litert.core.errors import LiteRtError
from litert.core.option import Flag, Goes, Section, option
from litert.core.status import Status

DEFAULT_MANUFACTURER = "Reference"

PARTITION_STRATEGIES = ("default", "weakly_connected")
"""Strategies for grouping ops into partitions: the plugin's own strategy, or the largest groups of connected ops.
The strategies have the same names and order in stock LiteRT.
"""

CUSTOM_LAYERS_VARIABLE = "LITERT_NPU_CUSTOM_LAYERS"

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
_TO_PLUGIN = Goes.ENVIRONMENT | Goes.PAYLOAD


@dataclass(frozen=True, slots=True)
class CustomOpInfo:
    """A custom op and the path of its asset, as given by the flag `--npu_custom_op_info=op,path`.

    Attributes:
      op_name: Name of the op that the asset implements: the custom code of a custom op, or a builtin op's name.
      asset_path: Path of the asset.
    """

    op_name: str
    asset_path: str

    @classmethod
    def parse(cls, text: str) -> CustomOpInfo:
        """Parses a text `op,path`; the path may contain commas and spaces, but the op's name must not.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if the comma, the op's name or the path is missing.
        """
        op_name, comma, asset_path = text.partition(",")
        if not comma or not op_name.strip() or not asset_path:
            missing = "no comma" if not comma else "no op" if not op_name.strip() else "no path"
            parts = re.fullmatch(r"([^ :=,]+)[ :=]+([^ ].*)", text)
            example = f"{parts[1]},{parts[2]}" if parts else "my_op,path/to/asset"
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"--npu_custom_op_info={text!r} has {missing}",
                hint="Write the op and the path of its asset with a comma between them, as in "
                f"{example}.",
            )
        return cls(op_name, asset_path)


def environment_layers() -> Sequence[str]:
    """Returns the paths in the environment variable for custom layers; in its value, `:` separates the paths."""
    return [p for p in os.environ.get(CUSTOM_LAYERS_VARIABLE, "").split(os.pathsep) if p]


_SHAPES = "(.+?):(N(?:xN)*)(?:,(?!$)|$)"  # names may have `:` and `,`
_SIZE = "[1-9][0-9]*"


def parse_shape_bounds(texts: Sequence[str]) -> dict[str, Sequence[int]]:
    """Parses the values of the flag `--shape_bounds` as `parse_shapes` does.

    Each value of the flag gives the largest shape of a tensor.
    """
    return parse_shapes(texts, "shape_bounds", "bound")


def write_shapes(shapes: Mapping[str, Sequence[int]]) -> Sequence[str]:
    """Converts shapes to texts that `parse_shapes` can parse."""
    return [f"{name}:{'x'.join(map(str, shape))}" for name, shape in shapes.items()]


def parse_shapes(
    texts: Sequence[str], flag: str, noun: str, *, may_be_open: bool = False
) -> dict[str, Sequence[int]]:
    """Parses the values of a flag; each value gives the shape of a tensor, such as `input:1x3x300`.

    In error messages, `noun` is the word for such a shape. A value of the flag may also contain several shapes,
    separated by commas: `input:1x3x300,other:4`. Manifests contain values of this form. If `may_be_open` is true,
    the size of a dimension may be -1.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a value is not a shape, or if two values give different shapes of the
        same tensor.
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
                hint="Write the tensor's name and shape, such as input:100x3x300x300.",
            )
        pairs += found
    for name, shape in pairs:
        bound = [int(size) for size in shape.split("x")]
        if bounds.setdefault(name, bound) != bound:
            both = " and ".join("x".join(map(str, b)) for b in (bounds[name], bound))
            raise LiteRtError(
                Status.INVALID_TOOL_CONFIG,
                f"--{flag} gives tensor '{name}' two different shapes: {both}",
                hint=f"Give each tensor one {noun}.",
            )
    return bounds


def parse_replacements(texts: Sequence[str]) -> dict[str, str]:
    """Parses the values of the flag `--replace_ir`, and returns the paths of the files by the function's name.

    Raises:
      LiteRtError: INVALID_TOOL_CONFIG, if a value is not of the form name=path, or if two values give different
        files for a function.
    """
    files: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            what = f"--replace_ir={text} does not give both the name of a function and a file"
            hint = "Write the value like Partition_0=edited.mlir."
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=hint)
        if files.setdefault(name, path) != path:
            what = f"--replace_ir gives function '{name}' two different files: {files[name]} and {path}"
            raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint="Give each function one file.")
    return files


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """Selects the files that a vendor's compiler writes for people to read.

    Attributes:
      folder: Directory for the files; the compiler makes the directory if it does not exist.
      ir_after: Name of the pass after which the compiler writes the vendor's IR; `all` for every pass, "" for no
        pass.
      kernels: Whether the compiler writes the source code of each kernel, exactly as it is passed to the kernel
        compiler.
    """

    folder: str = option(
        Flag(
            "dump_folder",
            "",
            "Folder to which the --dump flags write files. The default is the output path with .dump appended.",
        ),
        Section.DUMP_FOLDER,
        _TO_PLUGIN,
    )
    ir_after: str = option(
        Flag(
            "dump_ir_after",
            "",
            "After a pass of the vendor's compiler, write the IR (the compiler's form of the "
            "model) to --dump_folder. Give the name of the pass, or all for every pass.",
        ),
        Section.DUMPS,
        _TO_PLUGIN,
    )
    kernels: bool = option(
        Flag(
            "dump_kernels",
            False,
            "Write the source code of each kernel to --dump_folder, exactly as the OpenCL compiler "
            "gets the source code.",
        ),
        Section.DUMPS,
        _TO_PLUGIN,
    )


@dataclass(frozen=True, slots=True)
class CompilerOptions:
    """Options from the user that a plugin may read.

    Attributes:
      custom_op_infos: Assets of custom ops, in the order of the flags `--npu_custom_op_info`; each op occurs once.
      max_partitions: Largest number of partitions to compile. A partition is a group of ops that becomes one NPU
        call. If there are more partitions, the smallest ones stay on the CPU. 0 means no limit.
      check_kernels: Whether the plugin builds each kernel once at compile time, to find errors
        early.
      allow_native_assets: Whether machine code from the user's assets may run in this process.
      vendor_options: Mapping from the names of the plugin's own options to their values, which are texts.
      custom_layers: Files that describe custom layers (the user's kernels for ops), and directories of such files.
        Each layer is used for all models that contain the layer's op. For an op, an asset in `custom_op_infos`
        takes precedence over these files. These files take precedence over the files in the environment variable
        LITERT_NPU_CUSTOM_LAYERS.
      asset_root: Directory that must contain all files to which assets refer; with "", an asset may refer only to
        files in or below its own directory.
      shape_bounds: Mapping from tensor names to the largest shapes of tensors whose shapes are known only at run
        time. Give a shape only for an input, or for a tensor whose largest shape the compiler cannot compute.
      dump: Selects the dumps that the plugin writes for people to read: IR text, and source code of kernels.
      partition_strategy: Strategy for grouping ops into partitions: `default` is the plugin's own strategy;
        `weakly_connected` makes the largest possible groups of connected ops.
      taps: Whether the byte code keeps the names of tensors inside NPU calls. With these names, `invoke_tapped` of
        the vendor's dispatch table can pass these tensors to the host. Byte code with tensor names may be larger
        and slower, but computes the same results.
      replace_ir: Mapping from function names to files with the vendor's IR that the user has edited. The plugin
        compiles each of these functions from the given file.
    """

    custom_op_infos: Sequence[CustomOpInfo] = option(
        Flag(
            "npu_custom_op_info",
            (),
            "A custom op and the path of its asset, as op,path. The asset is the file with the "
            "op's kernel. Give the flag once for each op. The path may contain commas and spaces.",
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
            "Maximum number of partitions (groups of ops for the NPU). If there are more "
            "partitions, only the largest partitions run on the NPU, and all other ops run on "
            "the CPU. 0 means no limit.",
            least=0,
        ),
        Section.PARTITIONS,
        Goes.ENVIRONMENT | Goes.MANIFEST,
    )
    check_kernels: bool = option(
        Flag(
            "check_kernels",
            True,
            "By default, each kernel is built during compilation, so that build errors appear now. "
            "With --nocheck_kernels, kernels are built when the model is first loaded.",
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
            "A file that describes custom layers, or a folder of such files. A layer implements "
            "all ops that have the layer's name, in any model. This flag may be repeated. The "
            f"environment variable {CUSTOM_LAYERS_VARIABLE} lists more such files. A layer from "
            "this flag has priority over a layer from the variable.",
            is_repeated=True,
        ),
        Section.LAYERS,
        Goes.LOAD | Goes.ENVIRONMENT,  # a plugin in C has no layers for any model
    )
    asset_root: str = option(
        Flag(
            "asset_root",
            "",
            "Folder that must contain all files to which assets refer. By default, an asset may "
            "refer only to files in or below its own folder.",
        ),
        Section.LAYERS,
        _TO_PLUGIN | Goes.LOAD,
    )
    shape_bounds: Mapping[str, Sequence[int]] = option(
        Flag(
            "shape_bounds",
            (),
            "The largest shape of a tensor whose shape is known only at run time, as "
            "input:100x3x300x300. Give the flag once for each tensor.",
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
            "How ops are grouped into partitions, which are the parts of the model for the NPU. "
            "With 'default', the vendor's plugin decides. With 'weakly_connected', each "
            "partition is the largest possible group of connected ops. If an op outside a group "
            "has to run between ops of the group, the group is split.",
            choices=PARTITION_STRATEGIES,
        ),
        Section.PARTITIONS,
        Goes.MANIFEST,
    )

    taps: bool = option(
        Flag(
            "taps",
            False,
            "Keep the names of tensors in the byte code, so that litert-npu compare can read "
            "tensors inside NPU calls.",
        ),
        Section.DUMPS,
        _TO_PLUGIN | Goes.MANIFEST,
    )

    replace_ir: Mapping[str, str] = option(
        Flag(
            "replace_ir",
            (),
            "A function and an IR file, as Partition_0=edited.mlir. An IR file contains the "
            "compiler's form of the function; --dump_ir_after writes such files, and you can "
            "edit them. The compilation of the function continues from the IR file. Give the "
            "flag once for each function.",
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
                f"unknown partition strategy {self.partition_strategy!r:.100}",
                hint=f"Use {' or '.join(PARTITION_STRATEGIES)}.",
            )
        seen: dict[str, CustomOpInfo] = {}
        for info in self.custom_op_infos:
            if not isinstance(info, CustomOpInfo):
                raise LiteRtError(
                    Status.INVALID_TOOL_CONFIG,
                    f"custom_op_infos contains {info!r:.100}, which is not a CustomOpInfo",
                    hint="Write custom_op_infos=[litert.CustomOpInfo(op, path)].",
                )
            if info.op_name in seen:
                raise LiteRtError(
                    Status.INVALID_TOOL_CONFIG,
                    f"custom op '{info.op_name}' was given two assets: {seen[info.op_name].asset_path} and "
                    f"{info.asset_path}",
                    hint="Give each op one asset.",
                )
            seen[info.op_name] = info

    def get_num_custom_op_info(self) -> int:
        """Returns the number of custom op infos, like `LiteRtGetCompilerOptionsNumCustomOpInfo` in C."""
        return len(self.custom_op_infos)

    def get_custom_op_info(self, index: int) -> tuple[str, str]:
        """Returns an op's name and the path of its asset, like `LiteRtGetCompilerOptionsCustomOpInfo` in C.

        Raises:
          LiteRtError: INDEX_OOB, if there is no custom op info with this index.
        """
        if not 0 <= index < len(self.custom_op_infos):
            count = len(self.custom_op_infos)
            raise LiteRtError(
                Status.INDEX_OOB,
                out_of_range("custom op info", index, count),
            )
        info = self.custom_op_infos[index]
        return info.op_name, info.asset_path


def check_is_list(name: str, value: Sequence[str]) -> None:
    """Refuses a single text where an option takes a list of texts.

    Without this check, Python would treat each character of the text as an element of the list.
    """
    if isinstance(value, str):
        raise LiteRtError(
            Status.INVALID_TOOL_CONFIG,
            f"{name} is the text {value!r:.100}, but must be a list of texts",
            hint=f"Write {name}=[{value!r:.100}].",
        )
