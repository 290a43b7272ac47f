"""The contents of a compiled file, as a report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from litert.core.counts import count_text
from litert.model.assets import ASSET_KEY_PREFIX, read_assets
from litert.model.blob import Blob
from litert.model.byte_code_container import carried_assets
from litert.model.graph import Model, Op, Tensor
from litert.model.manifest import Digest, Manifest, read_manifest
from litert.model.memory_plan import CallMemory, read_memory
from litert.model.reader import read_model
from litert.model.stamp import STAMP_KEY, Stamp, read_stamp

from .console import PrintedReport, ask, counts_text, name_text, size_text


@dataclass(frozen=True, slots=True)
class InspectedTensor:
    """An input or output of a signature.

    Attributes:
      name: Name that the signature gives to the input or output.
      type: Shape and element type in MLIR syntax.
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """A signature: a named entry point of a model.

    Attributes:
      key: Name of the signature; "" for the main subgraph of a model without signatures.
      inputs: Inputs of the signature, in order.
      outputs: Outputs of the signature, in order.
    """

    key: str
    inputs: Sequence[InspectedTensor]
    outputs: Sequence[InspectedTensor]


@dataclass(frozen=True, slots=True)
class InspectedCall:
    """An NPU call.

    Attributes:
      name: Name of the byte code function that the call runs.
      module: Index of the byte code module that the call uses.
      subgraph, op: Index of the subgraph that contains the call, and index of the call's op in the subgraph.
      inputs, outputs: Types of the call's inputs and outputs in MLIR syntax.
    """

    name: str
    module: int
    subgraph: int
    op: int
    inputs: Sequence[str]
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class InspectedPart:
    """A part of the file that is stored as a whole: an asset, a byte code module or a metadata entry.

    Attributes:
      name: Name of the asset or metadata entry, or index of the byte code module.
      digest: Digest of the part's bytes.
    """

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Inspection(PrintedReport):
    """The contents of a file.

    Attributes:
      path: Path of the file.
      size: Size of the file in bytes.
      stamp: Vendor and SoC model for which the file was compiled; null if the file has no stamp.
      manifest: Record of the compilation, with options, assets and digests; null if the file has no record.
      signatures: Signatures, in the file's order.
      ops: Names of all ops, in order.
      calls: NPU calls, in order.
      modules: Byte code modules, in the file's order.
      assets: Assets and their companion files, in the file's order.
      metadata: Metadata entries that are not assets.
      memory: Memory plans of NPU calls, if the vendor describes them: the offset of each buffer during a run.
      problems: Sentences about parts that could not be read.
    """

    path: str
    size: int
    stamp: Stamp | None
    manifest: Manifest | None
    signatures: Sequence[SignatureInfo]
    ops: Sequence[str]
    calls: Sequence[InspectedCall]
    modules: Sequence[InspectedPart]
    assets: Sequence[InspectedPart]
    metadata: Sequence[InspectedPart]
    memory: Sequence[CallMemory]
    problems: Sequence[str]

    def lines(self) -> Iterator[str]:
        yield f"{self.path}: {size_text(self.size)}"
        if self.stamp:
            vendor = f"{name_text(self.stamp.soc_manufacturer)} {name_text(self.stamp.soc_model)}"
            yield f"Compiled for {vendor}{self._made_by()}"
        elif self.calls:
            yield f"Vendor unknown: the file has no metadata entry {STAMP_KEY}"
        else:
            yield "Not compiled for an NPU"
        for signature in self.signatures:
            yield f"Signature {name_text(signature.key)}:" if signature.key else "No signature:"
            yield from (f"  in   {name_text(a.name)}: {a.type}" for a in signature.inputs)
            yield from (f"  out  {name_text(a.name)}: {a.type}" for a in signature.outputs)
        yield f"Ops: {len(self.ops)}" + (f" ({counts_text(self.ops)})" if self.ops else "")
        for call in self.calls:
            yield (
                f"NPU call {name_text(call.name)}: op {call.op} of subgraph {call.subgraph}, "
                f"in module {call.module}"
            )
            yield f"  ({', '.join(call.inputs)}) -> ({', '.join(call.outputs)})"
            yield from self._memory_lines(call)
        for kind, parts in (
            ("Byte code", self.modules),
            ("Asset", self.assets),
            ("Metadata", self.metadata),
        ):
            for part in parts:
                size = size_text(part.digest.size)
                yield f"{kind} {name_text(part.name)}: {size}, sha256 {part.digest.sha256}"
        yield from (f"Problem: {problem}" for problem in self.problems)

    def _memory_lines(self, call: InspectedCall) -> Iterator[str]:
        for memory in self.memory:
            if (memory.call, memory.module) == (call.name, call.module):
                used = [
                    f"{size_text(space.used)} of {name_text(space.name)}"
                    for space in memory.plan.spaces
                    if space.used
                ]
                steps = count_text(len(memory.plan.steps), "task")
                yield f"  memory between its {steps}: {', '.join(used)}"

    def _made_by(self) -> str:
        if self.manifest is None:
            return ""
        plugin = self.manifest.plugin_sdk_version
        by_plugin = f" and the vendor's compiler {name_text(plugin)}" if plugin else ""
        flags = ", ".join(f"--{name}={value}" for name, value in self.manifest.flags.items())
        with_flags = f", with {name_text(flags)}" if flags else ""
        return f", by litert-npu {name_text(self.manifest.sdk_version)}{by_plugin}{with_flags}"


def inspect_file(path: str) -> Inspection:
    """Reads the contents of a file, and computes the digest of each part."""
    with read_model(path) as model:
        problems = list(model.warnings)
        return Inspection(
            path=path,
            size=os.path.getsize(path),
            stamp=ask(lambda: read_stamp(model), problems),
            manifest=ask(lambda: read_manifest(model), problems),
            signatures=[
                SignatureInfo(s.key, _arguments(s.inputs), _arguments(s.outputs))
                for s in model.entries()
            ],
            ops=[op.name for op in model.ops()],
            calls=_calls(model),
            modules=[
                InspectedPart(str(index), Digest.of(module.blob))
                for index, module in enumerate(model.byte_code)
            ],
            assets=[
                InspectedPart(asset.name, Digest.of(asset.blob))
                for asset in (
                    *read_assets(model),
                    *(ask(lambda: carried_assets(model), problems) or ()),
                )
            ],
            metadata=[
                InspectedPart(entry.name, Digest.of(entry.buffer.blob or Blob(b"")))
                for entry in model.metadata
                if not entry.name.startswith(ASSET_KEY_PREFIX)
            ],
            memory=ask(lambda: read_memory(model), problems) or (),
            problems=problems,
        )


def _arguments(tensors: Sequence[tuple[str, Tensor]]) -> list[InspectedTensor]:
    return [InspectedTensor(name, str(tensor.type)) for name, tensor in tensors]


def _calls(model: Model) -> list[InspectedCall]:
    users: dict[Op, tuple[int, str]] = {
        op: (index, name)
        for index, module in enumerate(model.byte_code)
        for op, name in module.users
    }
    return [
        InspectedCall(
            users[op][1],
            users[op][0],
            subgraph_index,
            index,
            ["none" if tensor is None else str(tensor.type) for tensor in op.inputs],
            [str(tensor.type) for tensor in op.outputs],
        )
        for subgraph_index, subgraph in enumerate(model.subgraphs)
        for index, op in enumerate(subgraph.ops)
        if op in users
    ]
