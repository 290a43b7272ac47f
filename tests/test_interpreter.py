"""Tests that a program behaves the same with `litert.interpreter` as with `ai_edge_litert.interpreter`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.environment import Environment
from litert.interpreter import Interpreter
from litert.model.builder import ModelBuilder
from litert.model.writer import to_bytes
from litert.options import CpuOptions, Options
from litert.runtime.delegate import NpuDelegate
from tests.test_compiled_model import (
    X,
    Y,
    counter,
    dynamic,
    reshape,
    subtract,
    two_signatures,
    without_signature,
)

STOCK, OURS = import_module("ai_edge_litert.interpreter"), import_module("litert.interpreter")


def quantized() -> bytes:
    """Builds a model of an int8 convolution with a scale for each output channel."""
    builder = ModelBuilder()
    x = builder.input("x", "int8", (1, 4, 4, 2), quantization=Quantization((0.5,), (-3,)))
    scales = Quantization((0.25, 0.1, 0.5), (0, 0, 0), 0)
    weights = np.arange(3 * 2 * 2 * 2, dtype=np.int8).reshape(3, 2, 2, 2)
    w = builder.constant("w", weights, quantization=scales)
    bias = builder.constant("bias", np.array([1, 2, 3], np.int32))
    y = builder.tensor("y", "int8", (1, 3, 3, 3), quantization=Quantization((2.0,), (5,)))
    builder.output(
        builder.op("CONV_2D", [x, w, bias], [y], padding="VALID", stride_w=1, stride_h=1)
    )
    return to_bytes(builder.build())


def texts() -> bytes:
    builder = ModelBuilder()
    x = builder.input("x", "string", (2,))
    shape = builder.constant("shape", np.array([2, 1], np.int32))
    builder.output(builder.op("RESHAPE", [x, shape], [("y", "string", (2, 1))]))
    return to_bytes(builder.build())


def chain() -> bytes:
    """Builds a model that computes `y = -((x + x) * x)`, with two tensors between its ops."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    a = builder.op("ADD", [x, x], [("a", "float32", (1, 4))])
    b = builder.op("MUL", [a, x], [("b", "float32", (1, 4))])
    builder.output(builder.op("NEG", [b], [("y", "float32", (1, 4))]))
    return to_bytes(builder.build())


def positions() -> bytes:
    """Builds a model that finds the positive elements of `x`; its output shape is known only after a run."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    above = builder.op(
        "GREATER", [x, builder.constant("0", np.zeros(1, np.float32))], [("above", "bool", (1, 4))]
    )
    found = builder.tensor("found", "int64", (1, 2), shape_signature=(-1, 2))
    builder.output(builder.op("WHERE", [above], [found]))
    return to_bytes(builder.build())


def plain(value: Any) -> Any:
    """Converts a value for comparisons; the result contains the types and shapes of arrays."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def ready(package: Any, data: bytes, **arguments: Any) -> Any:
    interpreter = package.Interpreter(model_content=data, **arguments)
    interpreter.allocate_tensors()
    return interpreter


def run(interpreter: Any, *values: Any) -> list[Any]:
    """Sets all inputs, invokes the interpreter, and returns all outputs."""
    for details, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def all_details(data: bytes) -> Callable[[Any], Any]:
    def program(package: Any) -> Any:
        interpreter = package.Interpreter(model_content=data)
        found = [interpreter.get_input_details(), interpreter.get_output_details()]
        interpreter.allocate_tensors()
        names = interpreter.get_signature_list()
        runners = [interpreter.get_signature_runner(key) for key in names]
        return [
            found,
            names,
            interpreter.num_subgraphs(),
            interpreter.get_input_details(),
            interpreter.get_output_details(),
            interpreter.get_tensor_details(),
            [(r.get_input_details(), r.get_output_details()) for r in runners],
        ]

    return program


def from_a_file(package: Any) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".tflite") as file:
        file.write(subtract())
        file.flush()
        interpreter = package.Interpreter(Path(file.name), num_threads=2)
    interpreter.allocate_tensors()
    return run(interpreter, X, Y)


def resized(package: Any, shapes: Sequence[Sequence[int]]) -> Any:
    interpreter = ready(package, dynamic())
    found = []
    for shape in shapes:
        for details in interpreter.get_input_details():
            interpreter.resize_tensor_input(details["index"], shape, strict=True)
        interpreter.allocate_tensors()
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        found += [run(interpreter, x, np.ones_like(x)), interpreter.get_output_details()]
    return found


def through_views(package: Any) -> Any:
    interpreter = ready(package, chain())
    x = interpreter.tensor(interpreter.get_input_details()[0]["index"])
    y = interpreter.tensor(interpreter.get_output_details()[0]["index"])
    found = []
    for value in (1, 2):
        x().fill(value)
        interpreter.invoke()
        found.append(y().copy())
    return found


def a_view_outlives(package: Any) -> Any:
    interpreter = ready(package, chain())
    run(interpreter, X)
    view = interpreter.tensor(interpreter.get_output_details()[0]["index"])()
    del interpreter
    return view.copy()


def by_signature(package: Any) -> Any:
    runner = ready(package, dynamic()).get_signature_runner("serving_default")
    rows = np.concatenate([X, Y])
    return [
        runner(first=X, second=Y),
        runner(second=rows, first=2 * rows),
        runner.get_output_details(),
        runner(first=X, second=Y),
    ]


def second_signature(package: Any) -> Any:
    interpreter = package.Interpreter(model_content=two_signatures())
    square = interpreter.get_signature_runner("square")
    return square(side=X.reshape(2, 2)), interpreter.get_signature_runner("double")(x=X)


def state(package: Any) -> Any:
    interpreter = package.Interpreter(model_content=counter())
    interpreter.get_signature_runner("init")(x=np.zeros_like(X))
    add = interpreter.get_signature_runner("add")
    return [add(x=X) for _ in range(3)]


def kernels(package: Any) -> Any:
    types = package.OpResolverType
    return [
        run(ready(package, chain(), experimental_op_resolver_type=kind), X)
        for kind in (
            types.AUTO,
            types.BUILTIN,
            types.BUILTIN_REF,
            types.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
    ]


def intermediates(package: Any) -> Any:
    with pytest.warns(UserWarning, match="preserve_all_tensors"):
        interpreter = ready(package, chain(), experimental_preserve_all_tensors=True)
    run(interpreter, X)
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_tensor_details()}


def a_wrong_run_between(package: Any) -> Any:
    interpreter = ready(package, dynamic())
    for rows in (2, 3):
        interpreter.resize_tensor_input(0, [rows, 4])
        interpreter.resize_tensor_input(1, [2, 4])
        with contextlib.suppress(RuntimeError):
            interpreter.allocate_tensors()
    for index in range(2):
        interpreter.resize_tensor_input(index, [1, 4])
    interpreter.allocate_tensors()
    return run(interpreter, X, Y)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "run": lambda p: run(ready(p, subtract()), X, Y),
    "run without a signature": lambda p: run(ready(p, without_signature()), X),
    "run from a file": from_a_file,
    "run int8": lambda p: run(
        ready(p, quantized()), np.arange(32, dtype=np.int8).reshape(1, 4, 4, 2)
    ),
    "run texts": lambda p: run(ready(p, texts()), np.array([b"one", b"two"])),
    "a shape that only a run tells": lambda p: [
        run(ready(p, positions()), x) for x in (X, X - 2, X)
    ],
    "resize": lambda p: resized(p, [(3, 4), (1, 4), (1, 4), (7, 4)]),
    "views": through_views,
    "a view outlives the interpreter": a_view_outlives,
    "by signature": by_signature,
    "two signatures": second_signature,
    "state between runs": state,
    "kernels": kernels,
    "intermediate tensors": intermediates,
    "a wrong run between good ones": a_wrong_run_between,
    "a constant": lambda p: ready(p, quantized()).get_tensor(1),
    "variables": lambda p: ready(p, chain()).reset_all_variables(),
    "an option": lambda p: (
        ready(
            p, chain(), experimental_compress_quantization_zero_points=True
        ).experimental_compress_quantization_zero_points
    ),
    **{
        f"details, {name}": all_details(data)
        for name, data in {
            "two inputs": subtract(),
            "quantized": quantized(),
            "open shape": dynamic(),
            "two signatures": two_signatures(),
            "no signature": without_signature(),
            "texts": texts(),
            "told by a run": positions(),
            "int16": reshape("int16"),
            "variable": counter(),
        }.items()
    },
}


def held(package: Any, call: Callable[[Any], object]) -> None:
    interpreter = ready(package, chain())
    view = interpreter.tensor(0)()
    try:
        call(interpreter)
    finally:
        del view


def fresh(package: Any, data: bytes | None = None) -> Any:
    return package.Interpreter(model_content=data or subtract())


WRONG_PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "invoke before allocation": lambda p: fresh(p).invoke(),
    "set before allocation": lambda p: fresh(p).set_tensor(0, X),
    "get before allocation": lambda p: fresh(p).get_tensor(2),
    "view before allocation": lambda p: fresh(p).tensor(0)(),
    "invoke after a resize": lambda p: (
        i := ready(p, dynamic()),
        i.resize_tensor_input(0, [2, 4]),
        i.invoke(),
    ),
    "another type": lambda p: ready(p, subtract()).set_tensor(0, X.astype(np.float64)),
    "another rank": lambda p: ready(p, subtract()).set_tensor(0, X[0]),
    "another shape": lambda p: ready(p, subtract()).set_tensor(0, X[:, :2]),
    "no array": lambda p: ready(p, subtract()).set_tensor(0, "text"),
    "set a tensor that is not there": lambda p: ready(p, subtract()).set_tensor(99, X),
    "set a constant": lambda p: ready(p, quantized()).set_tensor(1, X),
    "get what has no elements": lambda p: run(ready(p, positions()), -X),
    "get a tensor that is not there": lambda p: ready(p, subtract()).get_tensor(99),
    "view a tensor that is not there": lambda p: ready(p, subtract()).tensor(-2)(),
    "details of no subgraph": lambda p: fresh(p).get_tensor_details(3),
    "resize a tensor that is not there": lambda p: fresh(p).resize_tensor_input(99, [1, 4]),
    "resize a fixed one": lambda p: fresh(p).resize_tensor_input(0, [2, 4], strict=True),
    "resize to less than nothing": lambda p: fresh(p).resize_tensor_input(0, [-1, 4]),
    "resize to text": lambda p: fresh(p).resize_tensor_input(0, "ab"),
    "shapes that disagree": lambda p: (
        i := fresh(p, dynamic()),
        i.resize_tensor_input(0, [3, 4]),
        i.resize_tensor_input(1, [2, 4]),
        i.allocate_tensors(),
    ),
    "invoke with a view": lambda p: held(p, lambda i: i.invoke()),
    "allocate with a view": lambda p: held(p, lambda i: i.allocate_tensors()),
    "resize with a view": lambda p: held(p, lambda i: i.resize_tensor_input(0, [1, 4])),
    "no such signature": lambda p: fresh(p).get_signature_runner("none"),
    "one of two signatures": lambda p: fresh(p, two_signatures()).get_signature_runner(),
    "no signature": lambda p: fresh(p, without_signature()).get_signature_runner(),
    "an input too few": lambda p: fresh(p).get_signature_runner()(first=X),
    "no such input": lambda p: fresh(p).get_signature_runner()(first=X, third=Y),
    "a list as an input": lambda p: fresh(p).get_signature_runner()(first=X, second=[1.0]),
    "an input of another type": lambda p: fresh(p).get_signature_runner()(first=X, second=Y > 0),
    "nothing": lambda p: p.Interpreter(),
    "path and content": lambda p: p.Interpreter("/nowhere.tflite", subtract()),
    "no file": lambda p: p.Interpreter("/nowhere/model.tflite"),
    "a file of something else": lambda p: p.Interpreter(__file__),
    "bytes of something else": lambda p: p.Interpreter(model_content=b"something else"),
    "threads as text": lambda p: p.Interpreter(model_content=subtract(), num_threads="2"),
    "no threads": lambda p: p.Interpreter(model_content=subtract(), num_threads=0),
    "no such kernels": lambda p: p.Interpreter(
        model_content=subtract(), experimental_op_resolver_type="AUTO"
    ),
    "no such option": lambda p: p.Interpreter(model_content=subtract(), experimental_tpu=True),
    "no delegate": lambda p: p.Interpreter(model_content=subtract(), experimental_delegates=[1]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_the_same(name: str) -> None:
    program = PROGRAMS[name]
    assert plain(program(OURS)) == plain(program(STOCK))


@pytest.mark.parametrize("name", WRONG_PROGRAMS)
def test_a_wrong_program_raises_the_same(name: str) -> None:
    program = WRONG_PROGRAMS[name]
    with pytest.raises(Exception) as expected:
        program(STOCK)
    with pytest.raises(type(expected.value)):
        program(OURS)


def test_an_interpreter_is_one_of_stock_s() -> None:
    assert isinstance(fresh(OURS), STOCK.Interpreter)


def test_a_model_that_cannot_be_loaded_is_told_with_the_cause() -> None:
    with pytest.raises(ValueError, match="NOT_FOUND") as error:
        Interpreter("/nowhere/model.tflite")
    assert isinstance(error.value.__cause__, LiteRtError)
    assert error.value.__cause__.status is Status.NOT_FOUND


def test_options_say_what_stock_s_arguments_do() -> None:
    options = Options(cpu_options=CpuOptions(num_threads=2))
    (found,) = run(ready(OURS, subtract(), options=options), X, Y)
    np.testing.assert_array_equal(found, X - Y)
    with pytest.raises(ValueError, match="either options or num_threads"):
        Interpreter(model_content=subtract(), options=options, num_threads=2)


def test_other_delegates_are_asked_after_ours() -> None:
    other = NpuDelegate(lambda *_: pytest.fail("there is no NPU call"))
    interpreter = ready(OURS, subtract(), experimental_delegates=[other])
    assert len(other.subgraphs) == 1
    np.testing.assert_array_equal(run(interpreter, X, Y)[0], X - Y)
    del interpreter
    other.close()


def test_a_closed_environment_is_refused() -> None:
    environment = Environment.create()
    environment.close()
    with pytest.raises(ValueError, match="no longer valid"):
        Interpreter(model_content=subtract(), environment=environment)


@pytest.mark.parametrize("name", ["hand_landmark_lite", "selfie_segmentation_landscape"])
def test_a_real_network_gives_the_same(networks: Path, name: str) -> None:
    found = []
    for package in (STOCK, OURS):
        interpreter = package.Interpreter(str(networks / f"{name}.tflite"))
        interpreter.allocate_tensors()
        (details,) = interpreter.get_input_details()
        image = np.random.default_rng(1).random(details["shape"], np.float32)
        found.append([details, run(interpreter, image), interpreter.get_output_details()])
    assert plain(found[1]) == plain(found[0])
