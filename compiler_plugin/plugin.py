"""The interface that a vendor implements to compile models for its NPU, and the types of the results.

The methods have the names of LiteRT's C functions (`litert/vendors/c/litert_compiler_plugin.h`) without the
prefix; for example, `partition` stands for `LiteRtCompilerPluginPartition`. A plugin module defines its plugin
factory as `PLUGIN`.
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
    """Kinds of hardware as bit flags, with the values of LiteRT's `LiteRtHwAccelerators`."""

    NONE = 0
    CPU = 1
    GPU = 2
    NPU = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """One op that a plugin selects for the NPU, like a call of `LiteRtPushOp` in C.

    Attributes:
      op: Op of the subgraph that the host passed to `partition`.
      partition_index: Partition index of the op; ops with different partition indices never share a partition.
    """

    op: Op
    partition_index: int = 0


class OpList:
    """The ops of a subgraph that a plugin selects for the NPU, and the reasons why other ops stay on the CPU."""

    def __init__(self) -> None:
        self.selected: list[Selection] = []
        self.refusals: dict[Op, str] = {}

    def push(self, op: Op, partition_index: int = 0) -> None:
        """Adds an op to the ops that the NPU runs."""
        self.selected.append(Selection(op, partition_index))

    def refuse(self, op: Op, reason: str) -> None:
        """Leaves an op on the CPU; the report shows the reason."""
        self.refusals[op] = reason


@dataclass(frozen=True, slots=True)
class CallInfo:
    """One NPU call, which runs a function of the byte code.

    Attributes:
      name: Name of the call's function in the byte code; the host passes this name to `invocation_context_create`.
      byte_code_index: Index of the byte code module that contains the function.
      shape_outputs: Indices of the partition's outputs whose shapes are known only after a run. For each index, in
        this order, the host appends an int32 output of shape `[rank]` to the call. `invoke` must write the data to
        the original output, and the shape of these data to the appended output.
      memory: Memory plan of the call; reports show the plan to users. None if the vendor does not provide a plan.
      expected: Expected duration of the call, for the report and for `litert-npu benchmark`; None if the vendor
        provides no estimate. The duration is stored in the compiled file, and therefore must not depend on the
        machine that compiles.
    """

    name: str
    byte_code_index: int = 0
    shape_outputs: Sequence[int] = ()
    memory: MemoryPlan | None = None
    expected: ExpectedTime | None = None


@dataclass(frozen=True, slots=True)
class CompiledResult:
    """The result of compiling partitions: byte code modules, and one NPU call for each partition.

    Attributes:
      byte_code: Byte code modules; several NPU calls may share a module.
      calls: One NPU call for each partition, in the order of the partitions.
      notes: Notes for the report, such as the messages of a kernel compiler.
      native_assets: Names of the assets that contain machine code which the byte code runs.
    """

    byte_code: Sequence[Blob]
    calls: Sequence[CallInfo]
    notes: Sequence[str] = ()
    native_assets: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Companion:
    """A companion file: a file that an asset refers to.

    Attributes:
      relative_path: Path of the companion file, with `/` as separator and without `..`. The path is relative to
        the asset's folder, or to `CompilerOptions.asset_root` if this folder contains the asset.
      blob: Content of the companion file.
    """

    relative_path: str
    blob: Blob


class CompilerPlugin(Protocol):
    """A vendor's compiler plugin; the host creates a plugin object for each run of a command.

    Attributes:
      data_layout: Optional; data layout of the partitions that the host passes to `compile`. With `"NCHW"`, image
        tensors and filters inside each partition have their channels before height and width (see
        `compiler_plugin/transformations/layout_change/image_layout.py`). The inputs and outputs of the partition
        keep the layout of the file; a TRANSPOSE op is inserted where the layouts differ. With `"NHWC"`, the
        default, partitions keep TFLite's layout. The user's flag `--disable_nhwc_to_nchw` overrides the plugin's
        layout.
      grouping: Optional; how the host forms partitions from the ops that the plugin takes. With `"connected"`, a
        partition consists of ops with the same partition index that are connected by tensors. Partitions are as
        large as possible, but dependencies between partitions never form a cycle. With `"consecutive"`, a
        partition consists of consecutive ops with the same partition index, even if no tensors connect them. Stock
        LiteRT uses the grouping `"consecutive"`, and this host uses it for plugins in shared libraries. The user's
        `--partition_strategy=weakly_connected` overrides the plugin's grouping.
      takes_ir: Optional; whether the plugin can compile a function from a file that the user has edited. The file
        contains the function in the vendor's intermediate representation (IR). If False, the flag `--replace_ir`
        is an error.
    """

    data_layout: DataLayout = "NHWC"
    grouping: Grouping = "connected"
    takes_ir: bool = False

    def has_transformations(self) -> bool:
        """Returns whether `transform` may change models. Optional.

        If the result is False, the host need not call `transform`.
        """
        return True

    def transform(self, model: Model) -> Mapping[str, int]:
        """Rewrites the model into a form that suits the vendor's compiler. Optional.

        The host runs the user's transformations, then calls `transform` once, before `partition`. The plugin may
        change the model, for example with `edit_model`, but must keep the model's inputs, outputs and signatures.

        Returns:
          A mapping from the name of each of the plugin's transformations to a number: how often the
          transformation has changed the model. The report shows these numbers.
        """
        return {}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        """Chooses which ops of one subgraph the NPU runs: calls `op_list.push` for each of them, in any order.

        The host groups these ops into partitions. The host leaves out the ops that an NPU call cannot contain:
        control flow ops, and ops with variable, resource or string tensors. The host calls `partition` for each
        subgraph. A composite is an op with a decomposition, which is a subgraph of simpler ops. If the plugin does
        not push a composite, the host replaces the composite by its decomposition, and calls `partition` again.
        The plugin must not change the subgraph.
        """
        ...

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        """Compiles partitions to byte code; each partition is a subgraph with its own inputs and outputs.

        The subgraphs are copies, which the plugin may change. The data of constants are not copied: they are views
        of the user's file. Tensors that share data, even in different subgraphs, have the same `buffer` object, so
        that a compiler can store the data once. To change the data of one tensor, a plugin must give the tensor a
        new `Buffer`.

        Raises:
          LiteRtError: UNSUPPORTED, if the plugin cannot compile the partitions. The host then compiles each
            partition alone. If a partition fails, the host splits it into halves. If a single op fails, the op
            stays on the CPU, and the report shows the error as the reason. Any other status ends the command.
        """
        ...

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        """Returns the companion files of an asset: the files that the asset refers to.

        An asset is a file with the kernel of a custom op. The host embeds companion files together with the asset.
        """
        ...

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        """Finds assets (files with kernels) for a model's ops in layer libraries. Optional.

        A layer library is a file or folder in the vendor's format. The host calls `custom_layers` before
        `partition`. The first call gets the paths from `--custom_layers`. The second call gets the paths from the
        environment variable LITERT_NPU_CUSTOM_LAYERS, and the ops for which the first call has returned no asset.
        The host embeds the returned assets like assets from flags. The plugin must also use the returned assets
        itself, as if they were in `custom_op_infos`.

        Args:
          paths: Files and folders from `--custom_layers`, or, in the second call, from LITERT_NPU_CUSTOM_LAYERS;
            the vendor defines their format. Plugins should ignore subfolders: the cache does not watch files in
            subfolders; a model with layers from subfolders is therefore compiled again at each load.
          op_names: Names of the model's ops, including builtin ops, but without ops that have an asset from a
            flag.

        Returns:
          At most one asset for each op.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if two files are for the same op; NOT_FOUND, if a path does not exist;
            UNSUPPORTED, if the vendor does not support layer libraries.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the vendor does not support --custom_layers",
            hint="Give each op an asset with --npu_custom_op_info=op,path.",
        )

    def close(self) -> None:
        """Releases the plugin's resources, like `LiteRtDestroyCompilerPlugin` in C."""
        ...


def has_optional(plugin: CompilerPlugin, name: str) -> bool:
    """Returns whether a plugin implements an optional method; an attribute with the value None does not count."""
    found = getattr(plugin, name, None)
    return callable(found) and getattr(found, "__func__", found) is not getattr(
        CompilerPlugin, name
    )


class CompilerPluginFactory(ABC):
    """Describes a vendor, and creates the vendor's plugin.

    The vendor's module contains one factory, in the variable `PLUGIN`.

    Attributes:
      api_version: Version of this interface that the plugin was written for; currently (0, 1, 0).
      soc_manufacturer: Name of the vendor, as in `--soc_manufacturer`; each compiled file contains this name.
      soc_models: Allowed values of `--soc_model`; the first value is the default.
      supported_hardware: Kinds of hardware that the plugin compiles for; NPU for all current vendors.
      sdk_version: Version of the vendor's compiler, in any format; each compiled file contains this version.
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
        """Creates a plugin, like `LiteRtCreateCompilerPlugin` in C.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, if an option is wrong.
        """

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        """Raises an error if the compiler does not support the host or the SoC model.

        By default, every host and SoC model is supported.

        Raises:
          LiteRtError: UNSUPPORTED_COMPILER_VERSION or UNSUPPORTED, if the compiler does not support the host or
            the SoC model.
        """
