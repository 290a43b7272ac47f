"""Nickel's compiler plugin: takes MUL and SUB of float32 tensors of equal shapes, and `Gain` if it has an asset.

The docstrings in `compiler_plugin/plugin.py` of litert-npu are the rules for each function.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.core.compiler_options import CompilerOptions
from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Op, Subgraph
from nickel_npu.byte_code import OPS, Function, write_byte_code

OPTIONS: Sequence[str] = ()
"""YOUR OPTIONS: names of the compiler's options. If they include `nickel_tiles`, `--nickel_tiles=4` on the command
line sets `compiler_options.vendor_options["nickel_tiles"]`."""


class NickelPlugin(CompilerPlugin):
    """The state of one run of the compiler."""

    def __init__(self, compiler_options: CompilerOptions) -> None:
        for name in compiler_options.vendor_options:
            if name not in OPTIONS:
                what = f"Nickel has no option '{name}'"
                known = (
                    f"Use {', '.join(OPTIONS)}." if OPTIONS else "Omit it: Nickel has no options."
                )
                raise LiteRtError(Status.INVALID_TOOL_CONFIG, what, hint=known)
        self._assets = {info.op_name for info in compiler_options.custom_op_infos}

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        for op in subgraph.ops:
            if op.name not in OPS:
                continue
            reason = self._why_not(op)
            if reason:
                op_list.refuse(op, reason)  # the report shows this sentence
            else:  # one call for each op; with index 0 for all ops, connected ops would become one call
                op_list.push(op, partition_index=len(op_list.selected))

    def _why_not(self, op: Op) -> str:
        """YOUR LIMITS: returns the reason why an op stays on the CPU; "" if the NPU takes the op."""
        if op.name == "Gain" and "Gain" not in self._assets:
            return "op Gain has no asset: give a file by --npu_custom_op_info=Gain,FILE"
        if len(op.inputs) != OPS[op.name] or len(op.outputs) != 1:
            inputs = count_text(OPS[op.name], "input")
            return f"the NPU supports {op.name} only with {inputs} and 1 output"
        output = op.outputs[0].type
        for tensor in op.inputs:
            if tensor is None or tensor.type != output:
                return "the op's tensors have different shapes or types"
            if tensor.is_constant:
                return "an input of the op is constant"
        if output.element_type is not ElementType.FLOAT32 or not output.layout.is_static:
            return "the op's tensors are not float32, or their shape is not known"
        if op.options and op.options.fields().get("fused_activation_function"):
            return "the op has a fused activation"
        return ""

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        """YOUR COMPILER: returns a byte code module with a function for each partition."""
        for op in [op for subgraph in partitions for op in subgraph.ops]:
            if op.name not in OPS or self._why_not(op):
                raise LiteRtError(Status.UNSUPPORTED, f"the NPU does not support this {op.name} op")
        if any(len(subgraph.ops) != 1 for subgraph in partitions):
            raise LiteRtError(
                Status.UNSUPPORTED,
                "the partition has several ops, but an NPU call can have only one",
            )
        functions = {f"f{i}": _function_of(subgraph) for i, subgraph in enumerate(partitions)}
        byte_code = Blob(write_byte_code(functions))
        return CompiledResult([byte_code], [CallInfo(name) for name in functions])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()  # YOUR ASSETS: the further files that an asset needs, to embed in the model

    def close(self) -> None:
        pass


def _function_of(subgraph: Subgraph) -> Function:
    """Returns the function that the driver runs for a partition of one op."""
    (op,) = subgraph.ops
    operands = [subgraph.inputs.index(tensor) for tensor in op.inputs if tensor is not None]
    return Function(op.name, operands)


class NickelPluginFactory(CompilerPluginFactory):
    """Describes Nickel. Listing all vendors imports this module: import a big compiler only inside `create`."""

    soc_manufacturer = "Nickel"
    soc_models = ("N1",)  # YOUR CHIPS: the first is the default
    sdk_version = "1.0"

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return NickelPlugin(compiler_options)


PLUGIN = NickelPluginFactory()
