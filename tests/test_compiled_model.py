"""Tests that a program behaves the same with `litert` as with `ai_edge_litert`, including its errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes

Array = np.ndarray[Any, Any]
X = np.array([[1, 2, 3, 4]], np.float32)
Y = np.array([[5, 6, 7, 8]], np.float32)


class Package:
    """The modules that a program imports, from one of the two packages."""

    def __init__(self, name: str) -> None:
        self.module = import_module(f"{name}.compiled_model")
        self.options = import_module(f"{name}.options")
        self.environment = import_module(f"{name}.environment")
        self.tensor_buffer = import_module(f"{name}.tensor_buffer")
        self.hardware_accelerator = import_module(f"{name}.hardware_accelerator")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def load(self, data: bytes, *args: Any, **kwargs: Any) -> Any:
        return self.CompiledModel.from_buffer(data, *args, **kwargs)


def subtract(shape: Sequence[int] = (1, 4), element_type: str = "float32", **options: Any) -> bytes:
    """Builds a model that computes `difference = first - second`."""
    builder = ModelBuilder()
    x = builder.input("x", element_type, shape, **options)
    y = builder.input("y", element_type, shape, **options)
    z = builder.tensor("z", element_type, shape, **options)
    builder.output(builder.op("SUB", [x, y], [z]))
    builder.signature("serving_default", {"second": y, "first": x}, {"difference": z})
    return to_bytes(builder.build())


def dynamic() -> bytes:
    return subtract(shape_signature=(-1, 4))


def without_signature() -> bytes:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    return to_bytes(builder.build())


def two_signatures() -> bytes:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    builder.output(builder.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    builder.signature("double")
    other = builder.subgraph("other")
    v = other.input("v", "float32", (2, 2))
    other.output(other.op("MUL", [v, v], [("w", "float32", (2, 2))]))
    other.signature("square", {"side": v}, {"area": other.graph.outputs[0]})
    return to_bytes(builder.build())


def reshape(element_type: str) -> bytes:
    builder = ModelBuilder()
    x = builder.input("x", element_type, (2, 2))
    shape = builder.constant("shape", np.array([4], np.int32))
    builder.output(builder.op("RESHAPE", [x, shape], [("y", element_type, (4,))]))
    return to_bytes(builder.build())


def counter() -> bytes:
    """Builds a model that adds `x` to a variable, and outputs the sum."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    handle = builder.op("VAR_HANDLE", [], [("handle", "resource", ())], shared_name="sum")
    value = builder.op("READ_VARIABLE", [handle], [("value", "float32", (1, 4))])
    total = builder.op("ADD", [x, value], [("total", "float32", (1, 4))])
    builder.op("ASSIGN_VARIABLE", [handle, total], [])
    builder.output(total)
    builder.signature("add")
    init = builder.subgraph("init")
    x = init.input("x", "float32", (1, 4))
    handle = init.op("VAR_HANDLE", [], [("handle", "resource", ())], shared_name="sum")
    init.op("ASSIGN_VARIABLE", [handle, x], [])
    init.output(init.op("ADD", [x, x], [("y", "float32", (1, 4))]))
    init.signature("init")
    return to_bytes(builder.build())


def run_buffers(model: Any, *arrays: Array, signature: int = 0) -> list[Any]:
    """Writes arrays to a model's input buffers, runs the model, and returns the contents of its output buffers."""
    inputs, outputs = model.create_input_buffers(signature), model.create_output_buffers(signature)
    for buffer, array in zip(inputs, arrays, strict=True):
        buffer.write(array)
    model.run_by_index(signature, inputs, outputs)
    return [read(buffer) for buffer in outputs]


def read(buffer: Any) -> Any:
    details = buffer.get_tensor_details()
    return buffer.read(int(np.prod(details["shape"])), np.dtype(details["dtype"])).tolist()


def by_name(package: Package) -> Any:
    model = package.load(subtract())
    key = "serving_default"
    inputs = {n: model.create_input_buffer_by_name(key, n) for n in ("second", "first")}
    outputs = {"difference": model.create_output_buffer_by_name(key, "difference")}
    inputs["first"].write(X)
    inputs["second"].write(Y)
    model.run_by_name(key, inputs, outputs)
    found = read(outputs["difference"])
    inputs["first"].write(Y)
    # The other input keeps its value.
    first_only = {"first": inputs["first"], "unknown": inputs["first"]}
    model.run_by_name(key, first_only, outputs)
    return found, read(outputs["difference"])


def through_files(package: Package) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(subtract())
        file.flush()
        with package.CompiledModel.from_file(file.name) as model:
            return run_buffers(model, X, Y)


def resized(package: Package, *, strict: bool) -> Any:
    model = package.load(dynamic() if strict else subtract())
    key = "serving_default"
    model.resize_input_tensor(0, [3, 4], strict=strict)
    model.resize_input_tensor_by_name(key, "second", (3, 4), strict=strict)
    details = [model.get_input_tensor_details(key), model.get_output_tensor_details(key)]
    requirements = [model.get_input_buffer_requirements(1), model.get_output_buffer_requirements(0)]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    return details, requirements, run_buffers(model, x, np.ones_like(x))


def auto_resized(package: Package) -> Any:
    model = package.load(dynamic())
    small = [model.create_input_buffers(0), model.create_output_buffers(0)]
    for index in range(2):
        model.resize_input_tensor(index, [2, 4])
    large = [model.create_input_buffers(0), model.create_output_buffers(0)]
    found = []
    for inputs, outputs in (small, large, small):
        model.run_by_index(0, inputs, outputs)
        found.append(model.get_output_tensor_details("serving_default"))
    return found


def in_place(package: Package) -> Any:
    model = package.load(subtract())
    inputs = model.create_input_buffers(0)
    inputs[0].write(X)
    inputs[1].write(Y)
    model.run_by_index(0, inputs, inputs[:1])
    return read(inputs[0])


def same_input_twice(package: Package) -> Any:
    model = package.load(subtract())
    (buffer, _), outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    buffer.write(X)
    model.run_by_index(0, (buffer, buffer), outputs)
    return read(outputs[0])


def larger_output(package: Package) -> Any:
    model = package.load(subtract())
    outputs = package.load(subtract((2, 4))).create_output_buffers(0)
    outputs[0].write(np.zeros((2, 4), np.float32))
    inputs = model.create_input_buffers(0)
    inputs[0].write(X)
    inputs[1].write(Y)
    model.run_by_index(0, inputs, outputs)
    return read(outputs[0])


def buffers_outlive_the_model(package: Package) -> Any:
    model = package.load(without_signature())
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    model.run_by_index(0, inputs, outputs)
    model.close()
    model.close()
    return read(outputs[0])


def state_between_runs(package: Package) -> Any:
    model = package.load(counter())
    run_buffers(model, np.zeros_like(X), signature=1)
    inputs, outputs = model.create_input_buffers(0), model.create_output_buffers(0)
    inputs[0].write(X)
    found = []
    for _ in range(3):
        model.run_by_index(0, inputs, outputs)
        found.append(read(outputs[0]))
    return found


def host_memory(package: Package) -> Any:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    buffer = package.TensorBuffer.create_from_host_memory(array)
    return buffer.get_tensor_details(), buffer.read(6, np.int32).tolist()


def host_memory_in_a_run(package: Package) -> Any:
    model = package.load(subtract((16,)))
    memory = np.zeros(64, np.float32)
    start = -memory.ctypes.data % 64 // 4
    x, result = memory[start : start + 16], memory[start + 16 : start + 32]
    buffer = package.TensorBuffer.create_from_host_memory(x)
    inputs = [buffer, model.create_input_buffers(0)[1]]
    inputs[1].write(np.ones(16, np.float32))
    x[:] = 3
    model.run_by_index(0, inputs, [package.TensorBuffer.create_from_host_memory(result)])
    return result.tolist()


def raw_bytes(package: Package) -> Any:
    buffer = package.load(subtract()).create_input_buffers(0)[0]
    buffer.write(X)
    buffer.write(np.arange(2, dtype=np.int32))
    buffer.write(np.arange(4, dtype=np.float32).reshape(2, 2).T[:1])
    return (
        buffer.read(16, np.uint8).tolist(),
        buffer.read((1, 3), np.float32).tolist(),
        buffer.read(0, "float32").tolist(),
        str(buffer.read(2, np.float16).dtype),
    )


def fewer_elements(package: Package) -> Any:
    """Writes fewer elements, which change only the start of the buffer, and elements of another type."""
    buffer = package.load(subtract()).create_input_buffers(0)[0]
    found = []
    for array in (
        X,
        np.full(2, 9, np.float32),
        np.empty(0, np.float32),
        np.arange(4, dtype=np.int32),
    ):
        buffer.write(array)
        found.append((buffer.read(4, np.float32).tolist(), buffer.read(8, np.int8).tolist()))
    return found


def environments(package: Package) -> Any:
    with package.Environment.create(runtime_path="/tmp/runtime") as environment:
        model = package.load(subtract(), environment=environment)
        assert model.environment is environment
        result = run_buffers(model, X, Y)
    options = package.EnvironmentOptions(runtime_path="/tmp/other", dispatch_library_path="/tmp")
    paths = [
        environment.options.runtime_path,
        package.Environment.create(options="/tmp/text").options.runtime_path,
        package.Environment.create(options=options).options.runtime_path,
        package.Environment.create(options=options).options.dispatch_library_path,
    ]
    return result, paths


def grouped_options(package: Package) -> Any:
    options = package.Options.create()
    options.hardware_accelerators = package.HardwareAccelerator.CPU
    options.cpu_options.num_threads = 2
    options.gpu_options.enforce_f32 = True
    options.qualcomm_options.vtcm_size = 4
    log_level = package.options.QualcommLogLevel.WARN
    options.qualcomm_options.log_level = log_level
    options.intel_openvino_options.configs_map["a"] = "b"
    return run_buffers(package.load(subtract(), options=options), X, Y), int(log_level)


def kernel_modes(package: Package) -> Any:
    return [
        run_buffers(package.load(subtract(), options=package.Options(cpu_options=cpu)), X, Y)
        for cpu in (
            package.CpuOptions(kernel_mode=package.CpuKernelMode.XNNPACK),
            package.CpuOptions(kernel_mode=package.CpuKernelMode.BUILTIN),
            package.CpuOptions(kernel_mode=package.CpuKernelMode.REFERENCE, num_threads=3),
            package.CpuOptions(num_threads=-1),
        )
    ]


def numbers(package: Package) -> Any:
    accelerators = package.HardwareAccelerator
    modes = package.CpuKernelMode
    return [int(a) for a in accelerators], {name: int(m) for name, m in modes.__members__.items()}


def details_of(element_type: str) -> Callable[[Package], Any]:
    def program(package: Package) -> Any:
        model = package.load(reshape(element_type))
        buffers = [model.create_input_buffers(0)[0], model.create_output_buffers(0)[0]]
        model.run_by_index(0, buffers[:1], buffers[1:])
        return (
            model.get_input_tensor_details("<placeholder signature>"),
            model.get_input_buffer_requirements(0),
            [buffer.get_tensor_details() for buffer in buffers],
        )

    return program


def signatures(make: Callable[[], bytes]) -> Callable[[Package], Any]:
    def program(package: Package) -> Any:
        model = package.load(make())
        keys = list(model.get_signature_list())
        return (
            model.get_signature_list(),
            model.get_num_signatures(),
            [model.get_signature_by_index(index) for index in range(len(keys))],
            [model.get_signature_index(key) for key in [*keys, "none"]],
            [model.get_input_tensor_details(key) for key in keys],
            [model.get_output_tensor_details(key) for key in keys],
            model.is_fully_accelerated(),
        )

    return program


PROGRAMS: dict[str, Callable[[Package], Any]] = {
    "run by index": lambda p: run_buffers(p.load(subtract()), X, Y),
    "run by name": by_name,
    "run from a file": through_files,
    "run the second signature": lambda p: run_buffers(
        p.load(two_signatures()), X.reshape(2, 2), signature=1
    ),
    "run integers": lambda p: run_buffers(
        p.load(subtract(element_type="int32")), X.astype(np.int32), Y.astype(np.int32)
    ),
    "signatures": signatures(subtract),
    "no signature": signatures(without_signature),
    "two signatures": signatures(two_signatures),
    "resize": lambda p: resized(p, strict=True),
    "resize what is fixed": lambda p: resized(p, strict=False),
    "resize by a buffer": auto_resized,
    "input and output in one": in_place,
    "one buffer for two inputs": same_input_twice,
    "an output larger than it need be": larger_output,
    "buffers outlive the model": buffers_outlive_the_model,
    "state between runs": state_between_runs,
    "host memory": host_memory,
    "host memory in a run": host_memory_in_a_run,
    "raw bytes": raw_bytes,
    "fewer elements than the tensor has": fewer_elements,
    "environments": environments,
    "grouped options": grouped_options,
    "kernel modes": kernel_modes,
    "numbers": numbers,
    "partly accelerated": lambda p: p.load(reshape("int64")).is_fully_accelerated(),
    **{f"details of {t}": details_of(t) for t in ("float16", "int64", "bool", "int16", "int8")},
}


def one(package: Package) -> tuple[Any, list[Any], list[Any]]:
    model = package.load(subtract())
    return model, model.create_input_buffers(0), model.create_output_buffers(0)


def destroyed(package: Package) -> tuple[Any, list[Any], list[Any]]:
    model, inputs, outputs = one(package)
    inputs[0].destroy()
    inputs[0].destroy()
    return model, inputs, outputs


def run_with(
    package: Package, inputs: Callable[[Any], Any], outputs: Callable[[Any], Any] = lambda o: o
) -> None:
    model, given_inputs, given_outputs = one(package)
    model.run_by_index(0, inputs(given_inputs), outputs(given_outputs))


def run_named(package: Package, key: str, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    model, (x, y), (z,) = one(package)
    del y
    model.run_by_name(key, dict.fromkeys(inputs, x), dict.fromkeys(outputs, z))


def closed_environment(package: Package) -> None:
    environment = package.Environment.create()
    environment.close()
    package.load(subtract(), environment=environment)


def after_a_resize(package: Package) -> None:
    model, inputs, outputs = one(package)
    model.resize_input_tensor(0, [2, 4], strict=False)
    model.run_by_index(0, inputs, outputs)


def shapes_that_disagree(package: Package) -> None:
    model = package.load(dynamic())
    model.resize_input_tensor(0, [4, 4])
    model.resize_input_tensor(1, [3, 4])
    model.create_output_buffers(0)


def small_output(package: Package) -> None:
    outputs = package.load(subtract((1, 2))).create_output_buffers(0)
    run_with(package, lambda i: i, lambda _: outputs)


def other_shape(package: Package) -> None:
    run_with(package, lambda i: [package.load(subtract((1, 8))).create_input_buffers(0)[0], i[1]])


def cpu(package: Package, **options: Any) -> Any:
    return package.Options(cpu_options=package.CpuOptions(**options))


KEY = "serving_default"
WRONG_PROGRAMS: dict[str, Callable[[Package], Any]] = {
    "no such signature": lambda p: one(p)[0].get_input_tensor_details("none"),
    "no such input": lambda p: one(p)[0].create_input_buffer_by_name(KEY, "none"),
    "no such output": lambda p: one(p)[0].create_output_buffer_by_name(KEY, "none"),
    "no such signature for a buffer": lambda p: one(p)[0].create_input_buffer_by_name("none", "x"),
    "input index": lambda p: one(p)[0].get_input_buffer_requirements(2),
    "negative input index": lambda p: one(p)[0].get_input_buffer_requirements(-1),
    "output index": lambda p: one(p)[0].get_output_buffer_requirements(1),
    "signature index": lambda p: one(p)[0].get_input_buffer_requirements(0, 1),
    "buffers of no signature": lambda p: one(p)[0].create_input_buffers(1),
    "a signature by text": lambda p: one(p)[0].create_input_buffers(KEY),
    "too much to write": lambda p: one(p)[1][0].write(np.zeros(5, np.float32)),
    "an odd type to write": lambda p: one(p)[1][0].write(np.zeros(2)),
    "a list to write": lambda p: one(p)[1][0].write([1.0, 2.0]),
    "too much to read": lambda p: one(p)[1][0].read(5, np.float32),
    "an odd type to read": lambda p: one(p)[1][0].read(2, np.float64),
    "no type to read": lambda p: one(p)[1][0].read(2, "nothing"),
    "less than nothing to read": lambda p: one(p)[1][0].read(-1, np.float32),
    "too few inputs": lambda p: run_with(p, lambda i: i[:1]),
    "too many inputs": lambda p: run_with(p, lambda i: i + i),
    "too few outputs": lambda p: run_with(p, lambda i: i, lambda _: []),
    "None as a buffer": lambda p: run_with(p, lambda i: [i[0], None]),
    "an array as a buffer": lambda p: run_with(p, lambda i: [i[0], X]),
    "an input of another shape": other_shape,
    "an output too small": small_output,
    "run no signature by name": lambda p: run_named(p, "none", ["first"], ["difference"]),
    "run by name without outputs": lambda p: run_named(p, KEY, ["first", "second"], []),
    "resize an input that is not there": lambda p: one(p)[0].resize_input_tensor(2, [1, 4]),
    "resize what is fixed": lambda p: one(p)[0].resize_input_tensor(0, [2, 4]),
    "resize a fixed dimension": lambda p: p.load(dynamic()).resize_input_tensor(0, [2, 5]),
    "resize to another rank": lambda p: p.load(dynamic()).resize_input_tensor(0, [2, 4, 1]),
    "resize to nothing": lambda p: one(p)[0].resize_input_tensor(0, [0, 4], strict=False),
    "resize to less": lambda p: one(p)[0].resize_input_tensor(0, [-1, 4], strict=False),
    "resize to no shape": lambda p: one(p)[0].resize_input_tensor(0, [], strict=False),
    "resize to a fraction": lambda p: one(p)[0].resize_input_tensor(0, [1.5, 4], strict=False),
    "resize in no signature": lambda p: one(p)[0].resize_input_tensor(0, [1, 4], 1),
    "resize by no name": lambda p: one(p)[0].resize_input_tensor_by_name(KEY, "none", [1, 4]),
    "resize by no key": lambda p: one(p)[0].resize_input_tensor_by_name("none", "x", [1, 4]),
    "old buffers after a resize": after_a_resize,
    "shapes that disagree": shapes_that_disagree,
    "read what is destroyed": lambda p: destroyed(p)[1][0].read(1, np.float32),
    "write what is destroyed": lambda p: destroyed(p)[1][0].write(X),
    "look at what is destroyed": lambda p: destroyed(p)[1][0].get_tensor_details(),
    "run with what is destroyed": lambda p: destroyed(p)[0].run_by_index(0, *destroyed(p)[1:]),
    "host memory of a list": lambda p: p.TensorBuffer.create_from_host_memory([1.0]),
    "host memory of a number": lambda p: p.TensorBuffer.create_from_host_memory(X[0, 0]),
    "host memory with gaps": lambda p: p.TensorBuffer.create_from_host_memory(X[:, ::2]),
    "accelerators twice": lambda p: p.load(
        subtract(), hardware_accel=p.HardwareAccelerator.CPU, options=p.Options()
    ),
    "no accelerator": lambda p: p.load(subtract(), p.HardwareAccelerator(0)),
    "the NPU alone": lambda p: p.load(subtract(), p.HardwareAccelerator.NPU),
    "text as an accelerator": lambda p: p.load(subtract(), "cpu"),
    "no such kernels": lambda p: p.load(subtract(), options=cpu(p, kernel_mode=7)),
    "threads as text": lambda p: p.load(subtract(), options=cpu(p, num_threads="2")),
    "no file": lambda p: p.CompiledModel.from_file("/nowhere/model.tflite"),
    "a file of something else": lambda p: p.CompiledModel.from_file(__file__),
    "a number as a file": lambda p: p.CompiledModel.from_file(3),
    "a buffer of something else": lambda p: p.load(b"something else"),
    "an empty buffer": lambda p: p.load(b""),
    "a bytearray": lambda p: p.CompiledModel.from_buffer(bytearray(subtract())),
    "a closed environment": closed_environment,
    "the runtime path twice": lambda p: p.Environment.create(options="/a", runtime_path="/b"),
    "options and paths": lambda p: p.Environment.create(
        options=p.EnvironmentOptions(), dispatch_library_path="/a"
    ),
}


@pytest.fixture(scope="module")
def stock() -> Package:
    return Package("ai_edge_litert")


@pytest.fixture(scope="module")
def ours() -> Package:
    return Package("litert")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same(stock: Package, ours: Package, name: str) -> None:
    program = PROGRAMS[name]
    assert program(ours) == program(stock)


@pytest.mark.parametrize("name", WRONG_PROGRAMS)
def test_a_wrong_program_raises_the_same(stock: Package, ours: Package, name: str) -> None:
    program = WRONG_PROGRAMS[name]
    with pytest.raises((ValueError, RuntimeError, TypeError, AttributeError)) as expected:
        program(stock)
    with pytest.raises(type(expected.value)) as found:
        program(ours)
    if isinstance(found.value, RuntimeError):
        assert isinstance(found.value, LiteRtError)  # has a status and a message
        assert found.value.what


@pytest.mark.parametrize("index", [5, -1])
def test_a_signature_that_is_not_there_is_an_error(ours: Package, index: int) -> None:
    with pytest.raises(
        LiteRtError,
        match=f"signature index {index} is out of range: the only signature has index 0",
    ):  # stock LiteRT aborts the process
        one(ours)[0].get_signature_by_index(index)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_real_network_gives_the_same(
    stock: Package, ours: Package, models: Path, threads: int
) -> None:
    path = str(models / "selfie_segmentation.tflite")
    image = np.random.default_rng(1).random((1, 256, 256, 3), np.float32)
    found = []
    for package in (stock, ours):
        options = cpu(package, num_threads=threads)
        model = package.CompiledModel.from_file(path, options=options)
        found.append(run_buffers(model, image)[0])
    np.testing.assert_allclose(found[1], found[0], atol=1e-5)  # threads change the order of sums
