"""Tries damaged calls of library ops: compiles and, if possible, runs them, and compares stock LiteRT's results.

This runs in a child process, because damage may crash it. Stock's interpreter runs in yet another process.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np

from compiler_plugin.pipeline import ApplyOptions, apply_plugin
from litert import CompiledModel
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.model.graph import Model
from litert.model.writer import to_bytes, write_model
from tests.vendor_reference.executables import Array
from tests.vendor_reference.random_ops import (
    NEED_SCALES,
    Drawing,
    OpCase,
    build,
    find_maker,
)
from vendor_reference.compiler.library.library_op import LibraryOp, library_ops
from vendor_reference.compiler.library.steps import INTEGER_LIMITS

_Choice = TypeVar("_Choice")
_NUMBERS = (0, 1, -1, -2, 2, 3, 7, 65536, 2**31 - 1, -(2**31))
_TYPES = ("float32", "float16", "int32", "int64", "int8", "uint8", "int16", "bool", "float64")
_SCALES: Sequence[Quantization | None] = (
    None, *(Quantization([scale], [0]) for scale in (0.0, -1.0, float("nan"), float("inf"), 1e-45)),
    Quantization([0.5], [3]), Quantization([0.25], [-300]), Quantization([0.5, 0.25], [1, 2]),
    Quantization([0.5, 0.25, 1.0], [1]), Quantization([0.5] * 3, [0] * 3, 9),
)  # fmt: skip
_GOOD_SCALE = Quantization([0.5], [3])
_LARGEST = 1 << 20
"""The largest number of elements of a tensor that is run."""


class SeededDrawing(Drawing):
    """Draws from a random number generator."""

    def __init__(self, random: Random, dtype: str) -> None:
        super().__init__(lambda strategy: None, dtype)
        self._random = random

    def size(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def choose(self, choices: Sequence[_Choice]) -> _Choice:
        return self._random.choice(choices)

    def order(self, rank: int) -> Sequence[int]:
        return self._random.sample(range(rank), rank)


def run(argument: Mapping[str, Any]) -> Iterator[str]:
    """Tries damaged calls; yields the text of each before the attempt, then the problem, or ""."""
    random, folder = Random(argument["seed"]), Path(argument["folder"])
    names = [name for name in library_ops() if name not in NEED_SCALES]
    for _ in range(argument["count"]):
        name = random.choice(names)
        model, inputs, text = _damaged_call(random, library_ops()[name])
        yield text
        yield _problem(folder, model, inputs)


def _damaged_call(random: Random, op: LibraryOp) -> tuple[Model, Mapping[str, Array], str]:
    """Returns a model of one op, the inputs of a run, and a text about them."""
    maker = find_maker(op)
    assert maker is not None
    quantized = () if op.name == "SOFTMAX" else op.quantized  # stock ignores its result's scale
    types = [t.name.lower() for t in (*op.types, *quantized) if t.name.lower() in _TYPES]
    drawing = SeededDrawing(random, random.choice(types))
    options = {key: random.choice(values) for key, values in maker.options.items()}
    case = maker.make(drawing, options)
    shapes = [*(case.shapes or stock_shapes(case) or [(2,)] * len(case.results))]
    for _ in range(random.choice((1, 1, 2))):
        damage = random.choice((_options, _integers, _shape, _shape, _type, _inputs))
        case = damage(random, case)
    if random.random() < 0.2:
        index = random.randrange(len(shapes))
        shapes[index] = _other_shape(random, shapes[index])
    elif random.random() < 0.6:
        shapes = [*(stock_shapes(case) or shapes)]
    model = build([case], shapes)
    what = _damage_tensors(random, model)
    inputs = {
        f"case0_x{i}": given.array
        for i, given in enumerate(case.inputs)
        if given is not None and not given.is_constant
    }
    return model, inputs, f"{case} -> {shapes} {what}"


def _options(random: Random, case: OpCase) -> OpCase:
    keys = [key for key, value in case.options.items() if isinstance(value, int)]
    if not keys:
        return _shape(random, case)
    return replace(case, options={**case.options, random.choice(keys): random.choice(_NUMBERS)})


def _integers(random: Random, case: OpCase) -> OpCase:
    """Changes one number in a constant."""
    found = [
        i
        for i, given in enumerate(case.inputs)
        if given and given.is_constant and given.array.dtype.kind == "i" and given.array.size
    ]
    if not found:
        return _options(random, case)

    def change(array: Array) -> Array:
        array = array.copy()
        at = random.randrange(array.size)
        limits = np.iinfo(array.dtype)
        array.reshape(-1)[at] = np.clip(random.choice(_NUMBERS), limits.min, limits.max)
        return array

    return _changed(case, random.choice(found), change)


def _shape(random: Random, case: OpCase) -> OpCase:
    return _changed(
        case,
        _any_input(random, case),
        lambda array: np.resize(array, _other_shape(random, array.shape)),
    )


def _type(random: Random, case: OpCase) -> OpCase:
    return _changed(
        case, _any_input(random, case), lambda array: array.astype(random.choice(_TYPES))
    )


def _any_input(random: Random, case: OpCase) -> int:
    return random.choice([index for index, given in enumerate(case.inputs) if given])


def _inputs(random: Random, case: OpCase) -> OpCase:
    """Removes, omits or repeats an input, or turns a computed input into a constant or the reverse."""
    inputs = list(case.inputs)
    index = random.randrange(len(inputs))
    given = inputs[index]
    match random.randrange(4):
        case 0 if len(inputs) > 1:
            inputs = [*inputs[:index], *inputs[index + 1 :]]
        case 1 if len(inputs) > 1:
            inputs[index] = None
        case 2:
            inputs.append(given)
        case _ if given is not None:
            inputs[index] = replace(given, is_constant=not given.is_constant, is_half=False)
    return replace(case, inputs=inputs) if any(inputs) else case


def _changed(case: OpCase, index: int, change: Callable[[Array], Array]) -> OpCase:
    inputs = list(case.inputs)
    given = inputs[index]
    assert given is not None
    with np.errstate(all="ignore"):
        inputs[index] = replace(given, array=change(given.array), is_half=False)
    return replace(case, inputs=inputs)


def _other_shape(random: Random, shape: Sequence[int]) -> tuple[int, ...]:
    sizes = list(shape)
    index = random.randrange(len(sizes) + 1)
    if index == len(sizes) or random.random() < 0.2:
        sizes.insert(index, random.choice((1, 2)))
    elif random.random() < 0.2:
        del sizes[index]
    else:
        size = sizes[index]
        sizes[index] = random.choice((0, 1, size + 1, max(size - 1, 0), 2 * size))
    return tuple(sizes) if prod(sizes) < _LARGEST else tuple(shape)


def _damage_tensors(random: Random, model: Model) -> str:
    """Sets scales on integer tensors, and in some cases an impossible size; returns a text about it."""
    tensors, told = model.subgraphs[0].tensors, []
    for tensor in tensors:
        if tensor.element_type in INTEGER_LIMITS and random.random() < 0.9:
            is_good = random.random() < 0.5
            tensor.quantization = _GOOD_SCALE if is_good else random.choice(_SCALES)
            told.append(f"{tensor.name}: {tensor.quantization}")
    if random.random() < 0.2:
        tensor = random.choice(tensors)
        if tensor.shape:
            sizes = list(tensor.shape)
            sizes[random.randrange(len(sizes))] = random.choice(_NUMBERS[:2] + _NUMBERS[4:-1])
            tensor.shape = tuple(sizes)
            told.append(f"{tensor.name}: {sizes}")
    return "; ".join(told)


def _problem(folder: Path, model: Model, inputs: Mapping[str, Array]) -> str:
    compiled = folder / "compiled.tflite"
    write_model(model, folder / "model.tflite")
    options = CompilerOptions(vendor_options={"reference_ops": "all"})
    try:
        report = apply_plugin(folder / "model.tflite", compiled, ApplyOptions(compiler=options))
    except LiteRtError as error:
        return f"compile: {error}"
    if not all(op.call for op in report.ops):
        return ""
    if any(prod(t.shape) > _LARGEST for t in model.subgraphs[0].tensors):
        return ""
    try:
        with CompiledModel.from_file(str(compiled)) as loaded:
            found = [*loaded.run(dict(inputs)).values()]
    except LiteRtError as error:
        expected = _stock(model, inputs)
        return "" if expected is None else f"run: {error}"
    expected = _stock(model, inputs)
    if expected is None:
        return ""
    for wanted, result in zip(expected, found, strict=True):
        if reason := _difference(wanted, result):
            return reason
    return ""


def _difference(wanted: Array, found: Array) -> str:
    if wanted.size == found.size:  # the result has the model's shape
        found = found.reshape(wanted.shape)
    if wanted.shape != found.shape:
        return f"{found.shape} and not {wanted.shape}"
    wanted, found = (a.astype(np.float32) if a.dtype == np.float16 else a for a in (wanted, found))
    if wanted.dtype.kind != "f":
        apart = np.abs(wanted.astype(np.float64) - found.astype(np.float64))
        return f"{apart.max()} apart" if apart.max(initial=0) > (wanted.dtype.itemsize < 4) else ""
    finite = np.isfinite(wanted) & np.isfinite(found) & (np.abs(wanted) < 3e38)
    greatest = np.abs(wanted[finite]).max(initial=1.0)
    apart = np.abs(wanted[finite].astype(np.float64) - found[finite].astype(np.float64))
    return f"{apart.max()} apart of {greatest}" if apart.max(initial=0) > 2e-3 * greatest else ""


def stock_shapes(case: OpCase) -> Sequence[tuple[int, ...]] | None:
    guessed = case.shapes or [(1,)] * len(case.results)
    given = {
        f"case0_x{i}": given.array
        for i, given in enumerate(case.inputs)
        if given is not None and not given.is_constant
    }
    try:
        made = _stock(build([case], guessed), given)
    except (LiteRtError, ValueError, OverflowError):
        return None
    return None if made is None else [array.shape for array in made]


def _stock(model: Model, inputs: Mapping[str, Array]) -> Sequence[Array] | None:
    """Returns the results of stock's plain kernels, run in a separate process; None if they fail or crash."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        try:
            os.write(writes, pickle.dumps(_run_stock(model, inputs)))
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data and not status else None


def _run_stock(model: Model, inputs: Mapping[str, Array]) -> Sequence[Array]:
    import faulthandler
    import signal

    faulthandler.disable()
    signal.alarm(10)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = Interpreter(
        model_content=bytes(to_bytes(model)), num_threads=1, experimental_op_resolver_type=plain
    )
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
