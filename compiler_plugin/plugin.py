"""What a vendor implements to compile for its NPU, and what the compiler gives back.

The functions are those of LiteRT's C interface (`litert/vendors/c/litert_compiler_plugin.h`), without the
prefix: `LiteRtCompilerPluginPartition` is `partition`. A module that holds a plugin has it as `PLUGIN`.
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
    """LiteRT's `LiteRtHwAccelerators`."""

    NONE = 0
    CPU = 1
    GPU = 2
    NPU = 4


@dataclass(frozen=True, slots=True)
class Selection:
    """One op that a plugin takes (`LiteRtPushOp`).

    Attributes:
      op: of the subgraph that the plugin was asked about.
      partition_index: ops with different indices never share a partition.
    """

    op: Op
    partition_index: int = 0


class OpList:
    """What a plugin takes of a subgraph, and why it leaves the rest."""

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
      name: of the function in its byte code; what `invocation_context_create` is given.
      byte_code_index: which of the byte code modules has it.
      shape_outputs: indices of the partition's outputs whose shapes only a run tells. For each of them, in this
        order, the host adds an int32 output of shape `[rank]` behind the partition's own; `invoke` fills both.
      memory: what lies where while it runs, for people who look for time or room; None where the vendor does not
        say.
      expected: how long it may take, for the report and for `litert-npu benchmark`; None where the vendor does not
        say. What shapes it has to be the same on every machine, since the compiled file has it.
    """

    name: str
    byte_code_index: int = 0
    shape_outputs: Sequence[int] = ()
    memory: MemoryPlan | None = None
    expected: ExpectedTime | None = None


@dataclass(frozen=True, slots=True)
class CompiledResult:
    """Byte code modules, and one call for each partition, in the partitions' order.

    Attributes:
      byte_code: modules; calls may share one.
      calls: one for each partition.
      notes: sentences for the report, such as what a kernel's build printed.
      native_assets: names of the assets whose machine code the byte code runs, and cannot run without.
    """

    byte_code: Sequence[Blob]
    calls: Sequence[CallInfo]
    notes: Sequence[str] = ()
    native_assets: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Companion:
    """A file that an asset names.

    Attributes:
      relative_path: from the asset's folder, with `/`; never absolute, never with `..`.
      blob: its bytes.
    """

    relative_path: str
    blob: Blob


class CompilerPlugin(Protocol):
    """A plugin that has been created; one for each run of the host.

    Attributes:
      data_layout: optional; what `compile` gets. `"NCHW"`: in each partition images and filters have their
        channels first, and convolutions and their like mean that: see
        `compiler_plugin/transformations/layout_change/image_layout.py`. The partition's own inputs and outputs
        stay as the file has them, with a TRANSPOSE where that matters. A plugin without it, or with `"NHWC"`,
        gets TFLite's own layout, and so do all with `--disable_nhwc_to_nchw`.
      grouping: optional; how the ops that it takes become partitions. `"connected"`: ops of one index that data
        joins, as many as can be without a cycle. `"consecutive"`: ops of one index that run one after the other,
        joined or not, as in stock LiteRT; so it is for plugins in shared libraries. The user's
        `--partition_strategy=weakly_connected` goes before it.
      takes_ir: optional; whether it compiles functions from the user's texts of its own IR (`replace_ir` of the
        options). The host refuses `--replace_ir` for a plugin that does not.
    """

    data_layout: DataLayout = "NHWC"
    grouping: Grouping = "connected"
    takes_ir: bool = False

    def has_transformations(self) -> bool:
        """Whether `transform` may change anything: who has to send it the model asks first. Optional."""
        return True

    def transform(self, model: Model) -> Mapping[str, int]:
        """Rewrites the model into what its compiler likes. Optional.

        The host calls it once, before `partition`, with the model as the user's transformations left it. The
        graph is the plugin's to change, by its methods; inputs, outputs and signatures stay.

        Returns:
          How often each of its transformations has changed the model, by name, for the report.
        """
        return {}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        """Says which ops the NPU takes, by `op_list.push`; those of one subgraph, in any order.

        The host groups what was pushed into partitions, and leaves out what no NPU call can hold: control
        flow, variable tensors, resources, strings. It asks again for each subgraph, and once composites that were
        not pushed are replaced by their decompositions. A subgraph is the user's: a plugin that changes it is
        refused.
        """
        ...

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        """Compiles partitions, each a subgraph with inputs and outputs of its own.

        The subgraphs are copies, the plugin's to change; their constants are views of the user's file. Tensors
        that share data, also in different subgraphs, have one `buffer` object: a compiler can store the data once.
        A plugin that changes the data of one tensor gives the tensor a new `Buffer`.

        Raises:
          LiteRtError: UNSUPPORTED refuses: the host tries the partitions alone, then in halves, and then
            leaves ops on the CPU with the error as the reason. Any other status ends the command.
        """
        ...

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        """The files that an asset names; the host embeds them beside it."""
        ...

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        """Finds layers for a model among those for any model (`--custom_layers`). Optional.

        The host asks before `partition`: with the paths of flags, then with those of the environment for the ops
        that are left. It embeds what comes back like the assets of flags. The plugin uses it for the ops of those
        names, as though it had been in `custom_op_infos`.

        Args:
          paths: the user's files and folders; what may be in them is the vendor's to say. Of a folder those files
            should count that lie directly in it: for a layer deeper down, what is compiled at load is never kept.
          op_names: of the model's ops, builtin ones too, but for those that a flag has an asset for.

        Returns:
          An asset for each op that has one, no op twice.

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, where two files are for one op; NOT_FOUND, for a path that leads
            nowhere; UNSUPPORTED is the answer of a vendor without such layers.
        """
        raise LiteRtError(
            Status.UNSUPPORTED,
            "it has no layers for any model",
            hint="Give each op its asset, with --npu_custom_op_info=op,path.",
        )

    def close(self) -> None:
        """Releases what the plugin holds (`LiteRtDestroyCompilerPlugin`)."""
        ...


def has_optional(plugin: CompilerPlugin, name: str) -> bool:
    """Whether a plugin has one of the optional functions of its own; one of None is none."""
    found = getattr(plugin, name, None)
    return callable(found) and getattr(found, "__func__", found) is not getattr(
        CompilerPlugin, name
    )


class CompilerPluginFactory(ABC):
    """Who a vendor is, and how to create its plugin. Its module has one as `PLUGIN`.

    Attributes:
      api_version: of this interface, as the plugin was written for it; (0, 1, 0).
      soc_manufacturer: the vendor's name: `--soc_manufacturer`, and in the stamp of each compiled file.
      soc_models: what `--soc_model` may be; the first is the default.
      supported_hardware: NPU, for all vendors so far.
      sdk_version: of the vendor's compiler, in any form; recorded in the manifest.
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
        """Makes a plugin (`LiteRtCreateCompilerPlugin`).

        Raises:
          LiteRtError: INVALID_TOOL_CONFIG, where an option is wrong.
        """

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        """Refuses a host or SoC model that the vendor's compiler cannot serve; the default takes all.

        Raises:
          LiteRtError: UNSUPPORTED_COMPILER_VERSION or UNSUPPORTED.
        """
