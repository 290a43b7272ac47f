"""The tasks of an executable, read from its header; each index, offset and size is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError
from litert.core.sizes import Size
from vendor_reference.executable.cpu_op import CpuOperand, TensorConfig
from vendor_reference.executable.cpu_op_json import MOST, parse_config, parse_op
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    CpuPlace,
    CpuTask,
    KernelTask,
    Source,
)
from vendor_reference.executable.format import ALIGNMENT
from vendor_reference.executable.size_json import parse_size
from vendor_reference.executable.work_size import work_size


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task's indices and places are checked against.

    Attributes:
      inputs, outputs: of the function, their sizes in bytes.
      constants: of the executable, their sizes as kernels read them.
      programs: how many the executable has.
      ddr_size, cmx_size: of the function's arenas.
    """

    inputs: Sequence[int]
    outputs: Sequence[int]
    constants: Sequence[int]
    programs: int
    ddr_size: int
    cmx_size: int


def read_task(node: JsonNode, limits: Limits) -> KernelTask | CpuTask:
    """A task of either kind."""
    is_cpu = isinstance(node.value, dict) and "implementation" in node.value
    return _cpu_task(node, limits) if is_cpu else _kernel_task(node, limits)


def _kernel_task(node: JsonNode, limits: Limits) -> KernelTask:
    fields = node.fields(
        ("op_name", "program", "entry", "arguments", "global_size"), ("local_size", "num_shaves")
    )
    global_size = [parse_size(n) for n in fields["global_size"].items(1, 3)]
    local_size: Sequence[Size] | None = None
    if "local_size" in fields:
        local_size = [parse_size(n) for n in fields["local_size"].items()]
        if len(local_size) != len(global_size):
            raise fields["local_size"].error(f"{local_size} for global size {global_size}")
    if all(isinstance(size, int) for size in (*global_size, *(local_size or ()))):
        try:
            work_size(global_size, local_size, lambda _: (), "")
        except LiteRtError as error:
            raise node.error(error.what) from None
    entry = fields["entry"].text()
    if not entry.isidentifier() or not entry.isascii():
        raise fields["entry"].error(f"{entry!r} is not the name of a kernel")
    return KernelTask(
        fields["op_name"].text(),
        fields["program"].integer(0, limits.programs - 1),
        entry,
        [_argument(n, limits) for n in fields["arguments"].items()],
        global_size,
        local_size,
        fields["num_shaves"].integer(0, 2**31 - 1) if "num_shaves" in fields else 0,
    )


def _cpu_task(node: JsonNode, limits: Limits) -> CpuTask:
    fields = node.fields(
        ("op_name", "asset", "op", "implementation", "config", "inputs", "outputs")
    )
    op = parse_op(fields["op"])
    config = parse_config(fields["config"], op)
    inputs = fields["inputs"].items(len(op.inputs), len(op.inputs))
    outputs = fields["outputs"].items(len(op.outputs), len(op.outputs))
    return CpuTask(
        fields["op_name"].text(),
        read_source(fields["asset"]),
        op,
        fields["implementation"].integer(0, 2**31 - 1),
        config,
        tuple(
            None if operand is None or tensor is None else _place(n, operand, tensor, limits)
            for n, operand, tensor in zip(inputs, op.inputs, config.inputs, strict=True)
        ),
        tuple(
            _place(n, operand, tensor, limits, is_written=True)
            for n, operand, tensor in zip(outputs, op.outputs, config.outputs, strict=True)
        ),
    )


def _place(
    node: JsonNode,
    operand: CpuOperand,
    tensor: TensorConfig,
    limits: Limits,
    is_written: bool = False,
) -> CpuPlace:
    fields = node.fields(("argument",), ("strides", "offset", "shape"))
    argument = _argument(fields["argument"], limits)
    sizes = {
        ArgumentKind.INPUT: limits.inputs,
        ArgumentKind.OUTPUT: limits.outputs,
        ArgumentKind.CONSTANT: limits.constants,
    }
    if argument.kind in (ArgumentKind.DDR, ArgumentKind.CMX):
        size = argument.size_bytes
    elif argument.kind in sizes:
        size = sizes[argument.kind][argument.index]
    else:
        raise node.error(f"a tensor that is {argument.kind.value}")
    if is_written and argument.kind in (ArgumentKind.INPUT, ArgumentKind.CONSTANT):
        raise node.error(f"an output that is {argument.kind.value} {argument.index}")
    assert tensor.layout is not None
    shape = operand.tensor_type.shape
    dims, strides = tensor.layout.dims(shape), tensor.layout.strides(shape)
    given: tuple[int, ...] = ()
    if "strides" in fields:
        given = tuple(n.integer(0, MOST) for n in fields["strides"].items(len(dims), len(dims)))
    offset = fields["offset"].integer(0, MOST) if "offset" in fields else 0
    last = sum((d - 1) * s for d, s in zip(dims, given or strides, strict=True))
    needed = (offset + last + 1) * (tensor.element_type.bits // 8) if prod(dims) else 0
    if needed > size:
        raise node.error(f"{operand.tensor_type} in {tensor.layout}: {needed} bytes in {size}")
    told = fields["shape"].integer(0, MOST) if "shape" in fields else None
    return CpuPlace(argument, given, offset, told)


def _argument(node: JsonNode, limits: Limits) -> Argument:
    fields = node.fields(("kind",), ("index", "offset", "size_bytes", "scalar"))
    kind = _KINDS[fields["kind"].text(_KINDS)]
    index = fields["index"].integer(0, MOST) if "index" in fields else 0
    offset = fields["offset"].integer(0, MOST) if "offset" in fields else 0
    size = fields["size_bytes"].integer(0, MOST) if "size_bytes" in fields else 0
    counts = {
        ArgumentKind.INPUT: len(limits.inputs),
        ArgumentKind.OUTPUT: len(limits.outputs),
        ArgumentKind.CONSTANT: len(limits.constants),
    }
    allowed = {"kind"} | _FIELDS[kind]
    if not fields.keys() <= allowed:
        raise node.error(f"{', '.join(sorted(fields.keys() - allowed))} of a {kind.value}")
    if kind in counts and index >= counts[kind]:
        raise node.error(f"{kind.value} {index} of {counts[kind]}")
    arenas = {ArgumentKind.DDR: limits.ddr_size, ArgumentKind.CMX: limits.cmx_size}
    if kind in arenas and (offset % ALIGNMENT or offset + size > arenas[kind]):
        raise node.error(f"{size} bytes at {offset} of {arenas[kind]} in {kind.name}")
    if kind is ArgumentKind.LOCAL and not size:
        raise node.error("no bytes of local memory")
    return Argument(kind, index, offset, size, _scalar(node, fields.get("scalar"), kind))


_KINDS = {kind.value: kind for kind in ArgumentKind}
_FIELDS = {
    ArgumentKind.INPUT: {"index"},
    ArgumentKind.OUTPUT: {"index"},
    ArgumentKind.CONSTANT: {"index"},
    ArgumentKind.DDR: {"offset", "size_bytes"},
    ArgumentKind.CMX: {"offset", "size_bytes"},
    ArgumentKind.LOCAL: {"size_bytes"},
    ArgumentKind.SCALAR: {"scalar"},
    ArgumentKind.SHAPE: {"index"},
}


def _scalar(node: JsonNode, field: JsonNode | None, kind: ArgumentKind) -> bytes:
    if (field is not None) != (kind is ArgumentKind.SCALAR):
        raise node.error(f"scalar bytes in a {kind.value}")
    if field is None:
        return b""
    digits = field.text()
    try:
        scalar = bytes.fromhex(digits)
    except ValueError:
        raise field.error(f"{digits[:40]!r} is not hex") from None
    if not 1 <= len(scalar) <= 128:
        raise field.error(f"a scalar of {len(scalar)} bytes, expected 1 to 128")
    return scalar


def read_source(node: JsonNode) -> Source:
    """A reference to an asset."""
    fields = node.fields(("asset", "file_name", "sha256"))
    digest = fields["sha256"].text()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise fields["sha256"].error("not a SHA-256 in hex")
    file_name = read_name(fields["file_name"])
    if file_name.startswith("/") or ".." in file_name.split("/") or not file_name.isprintable():
        raise fields["file_name"].error(f"{file_name!r} is not a path inside the asset's folder")
    return Source(read_name(fields["asset"]), file_name, digest)


def read_name(node: JsonNode) -> str:
    """A text that is not empty."""
    name = node.text()
    if not name:
        raise node.error("an empty name")
    return name
