"""Creates models in stock LiteRT, in threads. Arguments: a function of this file, and its arguments."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from ai_edge_litert import compiled_model
from ai_edge_litert.compiled_model import CompiledModel, HardwareAccelerator, Options
from ai_edge_litert.environment import Environment

ACCELERATORS = HardwareAccelerator.NPU | HardwareAccelerator.CPU

inside, may_go_on, fails = threading.Event(), threading.Event(), False  # read by the vendor Gate


def at_once(model_path: str, given: str, dispatch: str, plugins: str) -> None:
    """Starts eight threads at once; each creates and runs a model, three times."""
    sys.setswitchinterval(1e-5)
    arrays, begin, made = dict(np.load(given)), threading.Barrier(8), []

    def work() -> None:
        for _ in range(3):
            begin.wait()
            environment = environment_of(dispatch, plugins)
            model = CompiledModel.from_file(model_path, ACCELERATORS, environment)
            run(model, arrays)
            made.append(model)

    in_threads([work] * 8)
    print("created", len(made))


def beside(model_path: str, dispatch: str, how: str, first: str) -> None:
    """Creates a model in a second thread while the vendor's code, in the first thread, waits for the program."""
    global fails
    fails = first == "fails"
    module, environments = compiled_model._cm, [environment_of(dispatch, "") for _ in range(2)]
    looked_up, options = module.CreateCompiledModelFromFile, Options(ACCELERATORS)._as_flat_kwargs()
    with open(model_path, "rb") as file:
        data = file.read()
    ways: dict[str, Callable[[], Any]] = {
        "from a file": lambda: CompiledModel.from_file(model_path, ACCELERATORS, environments[1]),
        "from a buffer": lambda: CompiledModel.from_buffer(data, ACCELERATORS, environments[1]),
        "looked up before": lambda: looked_up(environments[1].capsule, model_path, **options),
    }
    made: list[Any] = []

    def create_first() -> None:
        try:
            made.append(CompiledModel.from_file(model_path, ACCELERATORS, environments[0]))
        except RuntimeError as error:
            print("the first:", error)

    def create_second() -> None:
        inside.wait()
        made.append(ways[how]())

    def watch() -> None:
        inside.wait()
        for _ in range(20):  # gives the second thread time to create its model
            time.sleep(0.01)
        if made:
            print("too early")
        may_go_on.set()

    in_threads([create_first, create_second, watch])
    print("created", len(made))


def wrongly(model_path: str, broken_path: str, dispatch: str) -> None:
    """Checks that error messages are the same before and after our library is loaded."""
    module, environment = compiled_model._cm, environment_of(dispatch, "")

    def errors() -> list[str]:
        return [
            error_of(lambda: CompiledModel.from_file(broken_path, ACCELERATORS, environment)),
            error_of(lambda: CompiledModel.from_file("/no/such/file", ACCELERATORS, environment)),
            error_of(lambda: CompiledModel.from_buffer(b"nonsense", ACCELERATORS, environment)),
            error_of(lambda: module.CreateCompiledModelFromFile(environment.capsule, 3)),
            error_of(lambda: module.CreateCompiledModelFromFile()),
            error_of(lambda: module.CreateCompiledModelFromBuffer(None, b"", no_such=1)),
        ]

    before = errors()
    documentation = module.CreateCompiledModelFromFile.__doc__
    inside.set()
    CompiledModel.from_file(model_path, ACCELERATORS, environment)
    assert errors() == before and module.CreateCompiledModelFromFile.__doc__ == documentation
    print(*before, sep="\n")


def environment_of(dispatch: str, plugins: str) -> Any:
    return Environment.create(dispatch_library_path=dispatch, compiler_plugin_path=plugins)


def run(model: Any, arrays: dict[str, Any]) -> None:
    ((signature, names),) = model.get_signature_list().items()
    inputs = {n: model.create_input_buffer_by_name(signature, n) for n in names["inputs"]}
    outputs = {n: model.create_output_buffer_by_name(signature, n) for n in names["outputs"]}
    for name, buffer in inputs.items():
        buffer.write(arrays[name])
    model.run_by_name(signature, inputs, outputs)
    for name, buffer in outputs.items():
        expected = arrays[name]
        found = buffer.read(expected.size, expected.dtype.type).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def in_threads(functions: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def error_of(function: Callable[[], Any]) -> str:
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    return "none"


if __name__ == "__main__":
    sys.path.pop(0)  # remove this folder
    globals()[sys.argv[1]](*sys.argv[2:])
