"""`litert-npu inspect`: what a compiled file holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.option import Flag
from litert.core.status import Status
from litert.model.assets import ASSET_KEY_PREFIX, read_assets
from litert.model.blob import Blob
from litert.model.byte_code_container import carried_assets
from litert.model.graph import Model, Op, Tensor
from litert.model.manifest import Digest, Manifest, read_manifest
from litert.model.reader import read_model
from litert.model.stamp import Stamp, read_stamp

from .command import Command
from .command_line import REPORT, FlagValues, usage_error
from .console import PrintedReport, ask, counts_text, name_text, print_text, size_text
from .destinations import write_file


@dataclass(frozen=True, slots=True)
class InspectedTensor:
    """An input or output of a signature.

    Attributes:
      name: as the signature has it.
      type: in MLIR's spelling.
    """

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class SignatureInfo:
    """A named entry of a model.

    Attributes:
      key: its name; "" for the main subgraph of a model without signatures.
      inputs: in order.
      outputs: in order.
    """

    key: str
    inputs: Sequence[InspectedTensor]
    outputs: Sequence[InspectedTensor]


@dataclass(frozen=True, slots=True)
class InspectedCall:
    """An NPU call.

    Attributes:
      name: of its function in the byte code.
      module: index of the byte code module.
      subgraph, op: where it stands in the graph.
      inputs, outputs: types in MLIR's spelling.
    """

    name: str
    module: int
    subgraph: int
    op: int
    inputs: Sequence[str]
    outputs: Sequence[str]


@dataclass(frozen=True, slots=True)
class InspectedPart:
    """Something that lies in the file whole: an asset, a byte code module, a metadata entry.

    Attributes:
      name: an asset's or entry's; the index of a byte code module.
      digest: of its bytes.
    """

    name: str
    digest: Digest


@dataclass(frozen=True, slots=True)
class Inspection(PrintedReport):
    """What a file holds.

    Attributes:
      path: of the file.
      size: in bytes.
      stamp: whom the file is for; null where nothing says it.
      manifest: how the file was made; null where nothing says it.
      signatures: in the file's order.
      ops: names of all ops, in order.
      calls: of the NPU, in order.
      modules: byte code, in the file's order.
      assets: with companions, in the file's order.
      metadata: what is not an asset.
      problems: what could not be read, in sentences.
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
    problems: Sequence[str]

    def lines(self) -> Iterator[str]:
        yield f"{self.path}: {size_text(self.size)}"
        if self.stamp:
            vendor = f"{name_text(self.stamp.soc_manufacturer)} {name_text(self.stamp.soc_model)}"
            yield f"Compiled for {vendor}{self._made_by()}"
        elif self.calls:
            yield "Not stamped: nothing says whom it was compiled for"
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
        for kind, parts in (
            ("Byte code", self.modules),
            ("Asset", self.assets),
            ("Metadata", self.metadata),
        ):
            for part in parts:
                size = size_text(part.digest.size)
                yield f"{kind} {name_text(part.name)}: {size}, sha256 {part.digest.sha256}"
        yield from (f"Problem: {problem}" for problem in self.problems)

    def _made_by(self) -> str:
        if self.manifest is None:
            return ""
        plugin = self.manifest.plugin_sdk_version
        by_plugin = f" and the vendor's compiler {name_text(plugin)}" if plugin else ""
        flags = ", ".join(f"--{name}={value}" for name, value in self.manifest.flags.items())
        with_flags = f", with {name_text(flags)}" if flags else ""
        return f", by litert-npu {name_text(self.manifest.sdk_version)}{by_plugin}{with_flags}"


def inspect_file(path: str) -> Inspection:
    """Reads what a file holds, and takes the digest of each part."""
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
            problems=problems,
        )


def extract(path: str, name: str, output: str) -> int:
    """Writes a part of a file to a file of its own; returns its size in bytes."""
    with read_model(path) as model:
        blob = next((blob for found, blob in _parts(model) if found == name), None)
        if blob is None:
            names = [found for found, _ in _parts(model)]
            raise LiteRtError(
                Status.NOT_FOUND,
                f"nothing in it is named '{name}'",
                path,
                f"Name one of {', '.join(map(name_text, names)) or 'none: it holds no parts'}.",
            )
        write_file(output, lambda file: file.write(blob.view), [path])
        return blob.size


def _parts(model: Model) -> Iterator[tuple[str, Blob]]:
    """What can be taken out, by name: assets and companions, also of byte code; byte code; metadata."""
    yield from ((asset.name, asset.blob) for asset in read_assets(model))
    yield from ((asset.name, asset.blob) for asset in carried_assets(model))
    for index, module in enumerate(model.byte_code):
        yield f"byte_code:{index}", module.blob
    for entry in model.metadata:
        yield f"metadata:{entry.name}", entry.buffer.blob or Blob(b"")


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


_FLAGS = (
    Flag("dump", False, "Prints the whole graph, in MLIR's manner, instead."),
    Flag(
        "extract",
        "",
        "Takes this out: an asset or companion by its name, byte_code:<index>, or metadata:<name>.",
    ),
    Flag("output", "", "The file that --extract writes."),
    REPORT,
)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    (path,) = arguments
    if bool(flags.extract) is not bool(flags.output):
        raise usage_error(
            "--extract and --output go together", "Name what to take out, and the file to write."
        )
    if flags.extract:
        size = extract(path, flags.extract, flags.output)
        print_text(f"Wrote {flags.output}: {size_text(size)}", sys.stdout)
    elif flags.dump:
        from litert.model.dump import dump

        with read_model(path) as model:
            print_text(dump(model).rstrip(), sys.stdout)
    else:
        inspect_file(path).show(flags.report)
    return 0


COMMAND = Command(
    "FILE\nShows whom a file was compiled for, its NPU calls, byte code and assets with their digests.",
    _FLAGS,
    _run,
    num_arguments=1,
)
