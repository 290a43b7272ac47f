"""The interface that a vendor implements to compile for its NPU, and the compiler's results.

The functions are those of LiteRT's C interface (`litert/vendors/c/litert_compiler_plugin.h`) without the prefix:
`partition` stands for `LiteRtCompilerPluginPartition`. A module with a plugin defines the plugin as `PLUGIN`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Literal, Protocol, TypeAlias

from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import COMPILER_PLUGIN_API_VERSION, ApiVersion
from litert.model.blob import Blob
from litert.model.expected_time import ExpectedTime
from litert.model.graph import Model, Op, Subgraph
from litert.model.memory_plan import MemoryPlan

DataLayout: TypeAlias = Literal["NHWC", "NCHW"]
Grouping: TypeAlias = Literal["connected", "consecutive"]


class Hardware(IntFlag):
    """The kinds of hardware, with the numbers of LiteRT's `LiteRtHwAccelerators`."""

    NONE = 0
    CPU = 1
    GPU = 2
    NPU = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """One op that a plugin takes (`LiteRtPushOp`).

    Attributes:
      op: Op of the subgraph that the plugin was asked about.
      partition_index: Index of the op's partition group; ops with different indices never share a partition.
    """

    op: Op
    partition_index: int = 0


class OpList:
    """The ops that a plugin takes from a subgraph, and the reasons why the other ops stay on the CPU."""

    def __init__(self) -> None:
        self.selected: list[Selection] = []
        self.refusals: dict[Op, str] = {}

    def push(self, op: Op, partition_index: int = 0) -> None:
        """Takes an op for the NPU."""
        self.selected.append(Selection(op, partition_index))

    def refuse(self, op: Op, reason: str) -> None:
        """Leaves an op on the CPU, with a sentence for the report."""
        self.refusals[op] = reason


@dataclass(frozen=True, slots=True)
class CallInfo:
    """One NPU call of a compiled result.

    Attributes:
      name: Name of the call's function in the byte code; `invocation_context_create` gets this name.
      byte_code_index: Index of the byte code module that contains the function.
      shape_outputs: Indices of the partition's outputs whose shapes are known only after a run. For each of these
        outputs, in this order, the host adds an int32 output of shape `[rank]` after the partition's own outputs;
        `invoke` fills both outputs.
      memory: Memory layout during the call, for people who want to save time or memory; None if the vendor does
        not give one.
      expected: Expected duration of the call, for the report and for `litert-npu benchmark`; None if the vendor
        does not give one. The expectation must not depend on the machine that compiles, because the compiled file
        contains the expectation.
    """

    name: str
    byte_code_index: int = 0
    shape_outputs: Sequence[int] = ()
    memory: MemoryPlan | None = None
    expected: ExpectedTime | None = None


@dataclass(frozen=True, slots=True)
class CompiledResult:
    """Byte code modules, and one call for each partition, in the order of the partitions.

    Attributes:
      byte_code: Byte code modules; several calls may share a module.
      calls: One call for each partition.
      notes: Sentences for the report, such as the messages of a kernel's build.
      native_assets: Names of the assets whose machine code the byte code needs and runs.
    """

    byte_code: Sequence[Blob]
    calls: Sequence[CallInfo]
    notes: Sequence[str] = ()
    native_assets: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Companion:
    """A file that an asset names.

    Attributes:
      relative_path: Path relative to the asset's folder, with `/`; never absolute, and never with `..`.
      blob: Bytes of the file.
    """

    relative_path: str
    blob: Blob


class CompilerPlugin(Protocol):
    """A plugin object; the host creates one for each run of a command.

    Attributes:
      data_layout: Optional; data layout of the partitions that `compile` gets. With `"NCHW"`, images and filters
        in each partition have their channels first, and convolutions and similar ops expect that: see
        `compiler_plugin/transformations/layout_change/image_layout.py`. The partition's own inputs and outputs
        keep the layout of the file, with a TRANSPOSE where the layouts differ. With `"NHWC"`, or without
        `data_layout`, partitions keep TFLite's own layout; with `--disable_nhwc_to_nchw`, all partitions do.
      grouping: Optional; how the host groups the ops that the plugin takes into partitions. With `"connected"`, a
        partition consists of ops of one index that are connected by tensors, as many as possible without a cycle.
        With `"consecutive"`, a partition consists of ops of one index that run one after the other, connected or
        not, as in stock LiteRT; plugins in shared libraries use this grouping. The user's
        `--partition_strategy=weakly_connected` overrides the plugin's grouping.
      takes_ir: Optional; whether the plugin compiles functions from the user's texts of the plugin's own IR
        (`replace_ir` of the options). Without `takes_ir`, the host refuses `--replace_ir` for the plugin.
    """

    data_layout: DataLayout = "NHWC"
    grouping: Grouping = "connected"
    takes_ir: bool = False

    def has_transformations(self) -> bool:
        """Returns whether `transform` may change the model, for hosts that send the model elsewhere. Optional."""
        return True

    def transform(self, model: Model) -> Mapping[str, int]:
        """Rewrites the model into a form that suits the vendor's compiler. Optional.

        The host calls `transform` once, before `partition`, with the model after the user's transformations. The
        plugin may change the graph through the graph's methods; inputs, outputs and signatures must stay.

        Returns:
          How often each of the plugin's transformations has changed the model, by name, for the report.
        """
        return {}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        """Tells the host which ops of one subgraph the NPU takes, by calls of `op_list.push` in any order.

        The host groups the pushed ops into partitions, and removes ops that no NPU call can contain: control flow,
          and ops with variable tensors, resources or strings.
        flow, variable tensors, resources, strings. The host calls `partition` for each subgraph, and once more
        after it replaces composites that were not pushed by their decompositions. The subgraph belongs to the
        user: the host refuses a plugin that changes the subgraph.
        """
        ...

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        """Compiles partitions; each partition is a subgraph with its own inputs and outputs.

        The subgraphs are copies, which the plugin may change; their constants are views of the user's file.
        Tensors that share data, also across subgraphs, have the same `buffer` object, so that a compiler can store
        the data once. A plugin that changes the data of one tensor gives the tensor a new `Buffer`.

        Raises:
          LiteRtError: UNSUPPORTED, if the plugin refuses the partitions: the host then tries each partition alone,
            then halves of the partition, and finally leaves ops on the CPU with this error as the reason. Any
            other status ends the command.
        """
        ...

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        """Returns the files that an asset names; the host embeds these files together with the asset."""
        ...

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        """Finds layers for a model's ops in files and folders that serve any model (`--custom_layers`). Optional.

        The host calls `custom_layers` before `partition`: first with the paths from flags, then with the paths
          from the environment for the remaining ops.
        that are left. The host embeds the returned assets like the assets from flags. The plugin uses the assets
        for the named ops, as if `custom_op_infos` had contained them.

        Args:
          paths: The user's files and folders; the vendor defines their content. Only files that lie directly in a
            folder should count: the compilation of a layer in a deeper folder at load time is never cached.
          op_names: Names of the model's ops, including builtin ops, except ops with an asset from a flag.

        Returns:
          At most one asset for each op.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if two files are for one op; NOT_FOUND, if a path does not exist;
            UNSUPPORTED, if the vendor has no layers that serve any model.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the vendor has no layers that serve any model",
            hint="Give each op an asset with --npu_custom_op_info=op,path.",
        )

    def close(self) -> None:
        """Releases the plugin's resources (`LiteRtDestroyCompilerPlugin`)."""
        ...


def has_optional(plugin: CompilerPlugin, name: str) -> bool:
    """Returns whether a plugin implements an optional function; an attribute that is None does not count."""
    found = getattr(plugin, name, None)
    return callable(found) and getattr(found, "__func__", found) is not getattr(
        CompilerPlugin, name
    )


class CompilerPluginFactory(ABC):
    """Describes a vendor, and creates the vendor's plugin. The vendor's module contains one factory as `PLUGIN`.

    Attributes:
      api_version: Version of this interface that the plugin was written for; currently (0, 1, 0).
      soc_manufacturer: Name of the vendor, for `--soc_manufacturer` and for the stamp of each compiled file.
      soc_models: Allowed values of `--soc_model`; the first value is the default.
      supported_hardware: Kinds of hardware that the plugin compiles for; NPU for all current vendors.
      sdk_version: Version of the vendor's compiler, as any text; the manifest records the version.
    """

    api_version: ApiVersion = COMPILER_PLUGIN_API_VERSION
    soc_manufacturer: str
    soc_models: Sequence[str]
    supported_hardware: Hardware = Hardware.NPU
    sdk_version: str = ""

    @abstractmethod
    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        """Creates a plugin (`LiteRtCreateCompilerPlugin`).

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if an option is wrong.
        """

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        """Refuses a host or SoC model that the vendor's compiler does not support; the default accepts all.

        Raises:
          LiteRtError: UNSUPPORTED_COMPILER_VERSION or UNSUPPORTED, if the compiler does not support them.
        """
