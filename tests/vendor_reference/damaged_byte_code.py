"""Tries damaged byte code: reads, loads and, if possible, runs each module between fences of memory.

This runs in a child process, because a command that accesses memory outside its own ends the process.
"""

from __future__ import annotations

import ctypes
import json
import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.graph import Model
from litert.model.writer import write_model
from tests.vendor_reference.damaged_calls import SeededDrawing, stock_shapes
from tests.vendor_reference.executables import Array, assets
from tests.vendor_reference.random_ops import NEED_SCALES, build, find_maker
from vendor_reference.compiler.library.library_op import library_ops
from vendor_reference.device import function_memory, layer_constants
from vendor_reference.device.module import Module
from vendor_reference.device.opencl_device import OpenClDevice, shared_device
from vendor_reference.executable.byte_code import MAGIC, PREFIX
from vendor_reference.executable.executable import ArgumentKind, Function, align

_KERNEL = b"""
__kernel void Twice(__global const float* x, __global float* y) {
  y[get_global_id(0)] = 2 * x[get_global_id(0)];
}
"""
_NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    64,
    255,
    256,
    65535,
    2**28,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**62,
    -1,
)
_VALUES: Sequence[Any] = (
    None,
    "",
    "x",
    [],
    {},
    True,
    0.5,
    [[0, 0]],
    ["+", [0, 0], 1],
    ["*", [0, 1], [1, 0]],
)
_CODE = ("prelude", "sources", "entry", "build_options", "scalar", "headers")
"""Fields that decide what a user's kernel does; nobody can check them, so they are not damaged."""
_MOST_BYTES = 1 << 24
_PAGE = mmap.PAGESIZE
_DAMAGED_BYTES = 0.15


def run(argument: Mapping[str, Any]) -> Iterator[str]:
    """Tries damaged modules; yields a text before each attempt, then the problem, or "".

    It makes `modules` modules and damages each of them `count` times.
    """
    random, folder = Random(argument["seed"]), Path(argument["folder"])
    _fence_memory()
    device = shared_device(argument.get("device", ""))
    for number in range(argument["modules"]):
        has_kernels = random.random() < 0.2
        model = kernel_model(random) if has_kernels else _library_model(random)
        module = compile_module(folder, model, has_kernels)
        if module is None:
            continue
        yield f"module {number} as it is"
        yield _problem(device, module)
        for _ in range(argument["count"]):
            damaged, what = _damage(random, module, has_kernels)
            yield f"module {number}, {what}"
            yield _problem(device, damaged)


def _library_model(random: Random) -> Model:
    names = [name for name in library_ops() if name not in NEED_SCALES]
    while True:
        op = library_ops()[random.choice(names)]
        maker = find_maker(op)
        assert maker is not None
        types = [t.name.lower() for t in op.types]
        drawing = SeededDrawing(random, random.choice(types))
        case = maker.make(drawing, {k: random.choice(v) for k, v in maker.options.items()})
        if case.shapes:
            return build([case], case.shapes)
        if shapes := stock_shapes(case):
            return build([case], shapes)


def kernel_model(random: Random) -> Model:
    """Returns a model with some kernels in a row, in some cases of dynamic shape."""
    b = ModelBuilder()
    signature = (random.choice((-1, 48)), 5)
    shape = tuple(map(abs, signature))
    tensor = b.input("x", "float32", shape, shape_signature=signature)
    for index in range(random.randint(1, 3)):
        result = b.tensor(f"y{index}", "float32", shape, shape_signature=signature)
        b.custom("Twice", [tensor], [result])
        tensor = result
    b.output(tensor)
    return b.build()


def compile_module(folder: Path, model: Model, has_kernels: bool) -> bytes | None:
    """Returns the byte code of a model, or None if the NPU does not run it."""
    source, compiled = folder / "model.tflite", folder / "compiled.tflite"
    write_model(model, source)
    compiler = CompilerOptions(vendor_options={"reference_ops": "all"})
    if has_kernels:
        asset = folder / "Twice.cl"
        asset.write_bytes(_KERNEL)
        infos = [CustomOpInfo("Twice", str(asset))]
        signature = model.subgraphs[0].inputs[0].shape_signature or ()
        bounds = {"x": (48, 5)} if -1 in signature else {}
        compiler = CompilerOptions(infos, shape_bounds=bounds, check_kernels=False)
    try:
        apply_plugin(source, compiled, ApplyOptions(compiler=compiler))
    except LiteRtError:
        return None
    data = compiled.read_bytes()
    start = data.find(MAGIC)
    if start < 0:
        return None
    size = PREFIX.unpack_from(data, start)[3]
    return data[start : start + size]


def _damage(random: Random, module: bytes, has_kernels: bool) -> tuple[bytes, str]:
    """Changes one to three values of a module, or one if kernels rely on the limits they were compiled for."""
    size = PREFIX.unpack_from(module)[2]
    header = json.loads(module[PREFIX.size : PREFIX.size + size])
    data = bytearray(module[align(PREFIX.size + size) :])
    told = []
    for _ in range(1 if has_kernels else random.choice((1, 1, 2, 3))):
        if data and random.random() < _DAMAGED_BYTES:
            place = random.randrange(len(data))
            data[place] = random.choice((0, 1, 255, random.randrange(256)))
            told.append(f"byte {place} = {data[place]}")
        else:
            told.append(_damage_header(random, header))
    text = json.dumps(header).encode()
    start = align(PREFIX.size + len(text))
    _, version, _, _ = PREFIX.unpack_from(module)
    prefix = PREFIX.pack(MAGIC, version, len(text), start + len(data))
    return (prefix + text).ljust(start, b"\0") + data, "; ".join(told)


def _damage_header(random: Random, header: Any) -> str:
    leaves = [*_leaves(header, ())]
    words = [leaf for leaf in leaves if "commands" in leaf[0] or "arguments" in leaf[0]]
    path, holder, key = random.choice(words if words and random.random() < 0.6 else leaves)
    old = holder[key]
    kind = random.random()
    if kind < 0.1 and isinstance(holder, list):
        holder.insert(key, deepcopy(old))
        return f"{path} twice"
    if kind < 0.2:
        del holder[key]
        return f"no {path}"
    if kind < 0.3:
        holder[key] = deepcopy(random.choice(_VALUES))
    elif isinstance(old, int):
        near = (old + 1, old - 1, 2 * old, old // 2, old ^ 1 << random.randrange(32))
        other = random.choice(leaves)
        holder[key] = deepcopy(random.choice((*near, *_NUMBERS, other[1][other[2]])))
    else:
        holder[key] = random.choice(("", f"{old}x", random.choice(leaves)[2]))
    return f"{path}: {old!r:.40} -> {holder[key]!r:.40}"


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yields all values below `value`, each with its path, the object that contains it, and its key there."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if key in _CODE:
            continue
        yield (*path, key), value, key
        if isinstance(item, (dict, list)):
            yield from _leaves(item, (*path, key))


def _problem(device: OpenClDevice, module: bytes) -> str:
    """Reads and loads a module and runs its functions; returns any exception that is not a LiteRtError, or ""."""
    code = _fenced(len(module))
    code[:] = np.frombuffer(module, np.uint8)
    try:
        loaded = Module(device, memoryview(code.data), assets(Twice=_KERNEL))
        functions = loaded._executable.functions_on(device.info.has_fp16)
        for function in functions.values():
            tensors = [*function.inputs, *function.outputs]
            if sum(t.size_bytes for t in tensors) + function.ddr_size > _MOST_BYTES:
                continue
            _run(device, loaded, function)
        loaded.close()
    except LiteRtError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _run(device: OpenClDevice, module: Module, function: Function) -> None:
    """Runs a function with its largest shapes, then with smaller ones."""
    made = module.load(function)
    for kind, tensors in (
        (ArgumentKind.INPUT, function.inputs),
        (ArgumentKind.OUTPUT, function.outputs),
    ):
        for index, tensor in enumerate(tensors):
            memory = _fenced(tensor.size_bytes)
            made.attach(kind, index, device.share(memory.ctypes.data, tensor.size_bytes))
    made.run()
    dynamic = [i for i in range(len(function.inputs)) if made.has_dynamic_input(i)]
    for index in dynamic:
        shape = function.inputs[index].shape
        made.set_input_shape(index, (max(shape[0] - 1, 0), *shape[1:]))
        made.run()
    made.close()


def _fence_memory() -> None:
    """Makes the device use fenced memory for arenas and constants."""
    changes: Sequence[tuple[Any, str, Callable[..., Any]]] = (
        (function_memory, "map_pages", _fenced),
        (function_memory, "touch_pages", lambda _: None),
        (layer_constants, "aligned_memory", lambda shape, dtype: _fenced(shape[0])),
    )
    for module, name, function in changes:
        setattr(module, name, function)


def _fenced(size: int) -> Array:
    """Returns 64-byte aligned bytes between two inaccessible pages, as close to the second as possible."""
    room = -(-size // _PAGE) * _PAGE
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    address = libc.mmap(None, room + 2 * _PAGE, 0, flags, -1, 0)
    if address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "no such memory")
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mprotect(address + _PAGE, room, mmap.PROT_READ | mmap.PROT_WRITE)
    begin = address + _PAGE + room - align(size)
    memory: Array = np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(begin))
    return memory
