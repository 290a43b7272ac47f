"""Fake: a vendor for tests of the host. Its options select what it takes, refuses, and does wrong.

fake_ops=A,B     names of ops that it takes; `all` takes all
fake_indices=1   gives each op that it takes its own partition index
fake_refuse=A    refuses partitions that contain an op A
fake_max_ops=3   refuses partitions with more than 3 ops
fake_companions=a.h,b/c.h   companions of each asset, from the asset's folder
fake_mode=...    one of the methods of `_Modes`
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.blob import Blob, MappedFile
from litert.model.graph import CUSTOM, Buffer, Model, Op, OperatorCode, Subgraph


def write_byte_code(partitions: Sequence[Subgraph]) -> bytes:
    lines = [f"{partition.name}: {[op.name for op in partition.ops]}" for partition in partitions]
    return "\n".join(["FAKE", *lines]).encode()


class FakePlugin(CompilerPlugin):
    def __init__(self, options: CompilerOptions) -> None:
        self.options = {
            name.removeprefix("fake_"): value for name, value in options.vendor_options.items()
        }
        self.max_ops = int(self.options.get("max_ops", 1_000_000))

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        names = self.options.get("ops", "all").split(",")
        for index, op in enumerate(subgraph.ops):
            if names == ["all"] or op.name in names:
                op_list.push(op, index if "indices" in self.options else 0)
            elif op.is_custom:
                op_list.refuse(op, "a custom op that Fake does not know")

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        for partition in partitions:
            refused = [op.name for op in partition.ops if op.name == self.options.get("refuse")]
            if refused or len(partition.ops) > self.max_ops:
                what = f"no {refused[0]} today" if refused else f"{len(partition.ops)} ops"
                raise LiteRtError(Status.UNSUPPORTED, what, partition.name)
        names = [f"{partition.name}_on_{soc_model}" for partition in partitions]
        return CompiledResult(
            [Blob(write_byte_code(partitions))],
            [CallInfo(name) for name in names],
            [f"compiled {len(partitions)}"],
        )

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        folder = os.path.dirname(asset_path)
        names = filter(None, self.options.get("companions", "").split(","))
        return [Companion(name, MappedFile(os.path.join(folder, name)).blob()) for name in names]

    def close(self) -> None:
        pass


_EMPTY: dict[str, str] = {}
_CHANGES: dict[str, Callable[[Subgraph], object]] = {
    "order": lambda subgraph: subgraph.ops.reverse(),
    "tensors": lambda subgraph: subgraph.tensors.clear(),
    "outputs": lambda subgraph: subgraph.outputs.clear(),
    "code": lambda subgraph: setattr(subgraph.ops[1].code, "custom_code", "Renamed"),
    "input": lambda subgraph: subgraph.ops[1].set_input(0, subgraph.inputs[0]),
    "release": lambda subgraph: subgraph.ops[1].release(),
    "shape": lambda subgraph: setattr(subgraph.tensors[1], "shape", "4"),
    "quantization": lambda subgraph: setattr(
        subgraph.tensors[1], "quantization", Quantization([1])
    ),
    "buffer": lambda subgraph: setattr(subgraph.tensors[1], "buffer", None),
}


class _Modes:
    """The fake plugin's modes: each changes one of the plugin's functions, most of them to a mistake."""

    def create_raises(self, plugin: Any) -> Any:
        raise KeyError("no licence")

    def create_none(self, plugin: Any) -> Any:
        return None

    def create_half(self, plugin: Any) -> Any:
        plugin.companions = None
        return plugin

    def grouping_runs(self, plugin: Any) -> Any:
        """Valid: partitions are runs of consecutive ops, as in stock."""
        plugin.grouping = "consecutive"
        return plugin

    def transform_renames(self, plugin: Any) -> Any:
        """Valid: renames ops A to B."""

        def transform(model: Model) -> Mapping[str, int]:
            found = [op for op in model.ops() if op.name == "A"]
            for op in found:
                op.code = model.operator_code(CUSTOM, "B")
            return {"a_to_b": len(found), "b_to_c": 0}

        plugin.transform = transform
        return plugin

    def transform_edits(self, plugin: Any) -> Any:
        """Valid: removes a graph's ops A."""

        def transform(model: Model) -> Mapping[str, int]:
            from compiler_plugin.transformations import edit_model

            with edit_model(model) as (graph,):
                found = graph.get_op_nodes(op="A")
                for node in found:
                    source = node.in_port(0).get_source()
                    assert source is not None
                    node.out_port(0).get_connection().set_source(source)
            return {"no_a": len(found)}

        plugin.transform = transform
        return plugin

    def transform_raises(self, plugin: Any) -> Any:
        plugin.transform = lambda model: _EMPTY["missing"]
        return plugin

    def transform_none(self, plugin: Any) -> Any:
        plugin.transform = lambda model: None
        return plugin

    def transform_count(self, plugin: Any) -> Any:
        plugin.transform = lambda model: {"t": -1}
        return plugin

    def partition_raises(self, plugin: Any) -> Any:
        def partition(soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
            raise ZeroDivisionError("of the fake")

        plugin.partition = partition
        return plugin

    def partition_exits(self, plugin: Any) -> Any:
        plugin.partition = lambda *_: exit(3)
        return plugin

    def partition_twice(self, plugin: Any) -> Any:
        def partition(soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
            op_list.push(subgraph.ops[0])
            op_list.push(subgraph.ops[0])

        plugin.partition = partition
        return plugin

    def partition_foreign(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: op_list.push(
            Op(OperatorCode(32, "Foreign"), [], [])
        )
        return plugin

    def partition_text(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: op_list.push("CONV_2D")
        return plugin

    def partition_index(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: op_list.push(subgraph.ops[0], -1)
        return plugin

    def partition_list(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: setattr(op_list, "selected", 3)
        return plugin

    def partition_bare(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: op_list.selected.extend(subgraph.ops)
        return plugin

    def partition_refusal(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: op_list.refuse(subgraph.ops[0], 7)
        return plugin

    def partition_changes(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: subgraph.ops.pop()
        return plugin

    def partition_returns(self, plugin: Any) -> Any:
        plugin.partition = lambda _, subgraph, op_list: list(subgraph.ops)
        return plugin

    def partition_looks(self, plugin: Any) -> Any:
        """Valid: reads attributes that are decoded only on access."""

        def partition(soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
            assert all(tensor.quantization and tensor.type for tensor in subgraph.tensors)
            for op in subgraph.ops:
                op_list.push(op)

        plugin.partition = partition
        return plugin

    def partition_vandal(self, plugin: Any) -> Any:
        """Changes the graph as the option `change` says, and takes all ops."""

        def partition(soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
            _CHANGES[plugin.options["change"]](subgraph)
            for op in subgraph.ops:
                op_list.push(op)

        plugin.partition = partition
        return plugin

    def compile_raises(self, plugin: Any) -> Any:
        plugin.compile = lambda *_: _EMPTY["missing"]
        return plugin

    def compile_fails(self, plugin: Any) -> Any:
        def compile_(*_: object) -> CompiledResult:
            raise LiteRtError(Status.COMPILATION, "line 3 is wrong", "my.cl", "Repair it.")

        plugin.compile = compile_
        return plugin

    def compile_none(self, plugin: Any) -> Any:
        plugin.compile = lambda *_: None
        return plugin

    def compile_count(self, plugin: Any) -> Any:
        plugin.compile = lambda *_: CompiledResult([Blob(b"x")], [])
        return plugin

    def compile_index(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult(
            [Blob(b"x")], [CallInfo("f", 1)] * len(parts)
        )
        return plugin

    def compile_bytes(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult([b"x"], [CallInfo("f")] * len(parts))  # type: ignore[list-item]
        return plugin

    def compile_empty(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult([Blob(b"")], [CallInfo("f")] * len(parts))
        return plugin

    def compile_name(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult([Blob(b"x")], [CallInfo("")] * len(parts))
        return plugin

    def compile_surrogate(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult(
            [Blob(b"x")], [CallInfo("\udc80")] * len(parts)
        )
        return plugin

    def compile_shape(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult(
            [Blob(b"x")], [CallInfo("f", 0, [1])] * len(parts)
        )
        return plugin

    def compile_native(self, plugin: Any) -> Any:
        """Marks the assets named in the option `native` as machine code."""
        plugin.compile = lambda _, parts: CompiledResult(
            [Blob(b"x")],
            [CallInfo("f")] * len(parts),
            native_assets=plugin.options["native"].split(),
        )
        return plugin

    def compile_unused(self, plugin: Any) -> Any:
        plugin.compile = lambda _, parts: CompiledResult(
            [Blob(b"x"), Blob(b"left out")], [CallInfo("f")] * len(parts)
        )
        return plugin

    def compile_vandal(self, plugin: Any) -> Any:
        """Valid: changes everything in the partitions that it was given."""
        honest = plugin.compile

        def compile_(soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
            for partition in partitions:
                for tensor in partition.tensors:
                    tensor.name, tensor.shape = "gone", (9,)
                    tensor.buffer.blob = Blob(b"gone")
                    tensor.buffer = Buffer(Blob(b"gone"))
                for op in partition.ops:
                    op.code.custom_code = "gone"
                    op.custom_options = Blob(b"gone")
                    op.release()
                partition.ops.clear()
            result: CompiledResult = honest(soc_model, partitions)
            return result

        plugin.compile = compile_
        return plugin

    def companions_raises(self, plugin: Any) -> Any:
        plugin.companions = lambda *_: [][0]
        return plugin

    def companions_text(self, plugin: Any) -> Any:
        plugin.companions = lambda *_: "abc"
        return plugin

    def companions_outside(self, plugin: Any) -> Any:
        plugin.companions = lambda *_: [Companion("../secret", Blob(b""))]
        return plugin

    def companions_twice(self, plugin: Any) -> Any:
        plugin.companions = lambda *_: [Companion("a.h", Blob(b"a")), Companion("a.h", Blob(b"b"))]
        return plugin

    def companions_bytes(self, plugin: Any) -> Any:
        plugin.companions = lambda *_: [Companion("a.h", b"")]  # type: ignore[arg-type]
        return plugin

    def layers_absent(self, plugin: Any) -> Any:
        plugin.custom_layers = None
        return plugin

    def layers_text(self, plugin: Any) -> Any:
        plugin.custom_layers = lambda *_: "abc"
        return plugin

    def layers_foreign(self, plugin: Any) -> Any:
        plugin.custom_layers = lambda *_: [CustomOpInfo("Foreign", "k.cl")]
        return plugin

    def layers_twice(self, plugin: Any) -> Any:
        plugin.custom_layers = lambda *_: [CustomOpInfo("A", "k.cl"), CustomOpInfo("A", "l.cl")]
        return plugin

    def layers_raises(self, plugin: Any) -> Any:
        plugin.custom_layers = lambda *_: _EMPTY["layers"]
        return plugin

    def layers_gone(self, plugin: Any) -> Any:
        plugin.custom_layers = lambda *_: [CustomOpInfo("A", "gone.cl")]
        return plugin

    def close_raises(self, plugin: Any) -> Any:
        plugin.close = lambda: _EMPTY["closed"]
        return plugin

    def waits(self, plugin: Any) -> Any:
        """Valid: writes the file `sign`, then sleeps, so that a test can interrupt the command."""

        def compile_(*_: object) -> CompiledResult:
            with open(plugin.options["sign"], "w"):
                time.sleep(60)
            raise AssertionError("nobody has interrupted")

        plugin.compile = compile_
        return plugin


class FakeFactory(CompilerPluginFactory):
    soc_manufacturer = "Fake"
    soc_models = ("F1", "F2")
    sdk_version = "9.8.7"

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        plugin = FakePlugin(compiler_options)
        mode = plugin.options.get("mode")
        made: CompilerPlugin = getattr(_Modes(), mode)(plugin) if mode else plugin
        return made


PLUGIN = FakeFactory()
