"""`litert-npu layer run`: one layer on the device, compared with a reference, and measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..command import Command
from ..comparison import Comparison, compare
from ..input_arrays import (
    InputArray,
    TensorSpec,
    complete_inputs,
    find_arrays,
    read_inputs,
)
from ..output_arrays import plan_outputs, write_outputs
from ..wording import name_text
from .layer_flags import define_layer_flags, layer_request, open_layer
from .reference_function import call_reference
from .safe_process import answer, check_asset, compiling, run_safely, stage

if TYPE_CHECKING:
    from absl.flags import FlagValues

    from litert.model.graph import Op, Tensor
    from vendor_reference.authoring.layer_run import RunningLayer, Speed
    from vendor_reference.authoring.subject import Subject

_RANGE = (-1.0, 1.0)
_OWN = ("input", "output", "golden", "reference", "tolerance", "seed", "repeat", "flops")


def run(request: Mapping[str, Any]) -> Iterator[Mapping[str, object]]:
    """The child's part."""
    from vendor_reference.authoring.compiled_layer import compile_layer
    from vendor_reference.authoring.layer_run import freeze_shapes, read_flops, run_on_device

    flops = read_flops(request["flops"])
    with open_layer(request) as layer:
        subject = layer.subjects[0]
        freeze_shapes(subject.model)
        inputs = _read_inputs(subject, request)
        plan = plan_outputs(request["output"], _specs(subject.op.outputs, "output"))
        yield compiling(layer.options.path)
        with compile_layer(subject, layer.options) as compiled:
            yield stage("the device was opened")
            with run_on_device(compiled) as running:
                running.set_inputs([i.value for i in inputs.values()])
                yield stage(f"kernel '{running.entry}' was running")
                arrays, problems = running.run()
                outputs = dict(zip(_names(subject.op.outputs, "output"), arrays, strict=True))
                write_outputs(plan, outputs, _RANGE, [layer.options.path, layer.choice.model])
                yield stage("the reference was computed")
                comparisons = _compare(subject.op, inputs, outputs, request)
                speed = None
                if request["repeat"]:
                    yield stage(f"kernel '{running.entry}' was measured")
                    speed = running.measure(request["repeat"], flops)
        others = len(layer.subjects) - 1
    notes = [*compiled.report.notes, *compiled.report.warnings]
    if others:
        notes.append(f"the model has {others} more that differ: --op=INDEX runs another")
    passed = not problems and all(c.passed for c in comparisons)
    yield answer(
        passed,
        "\n".join(_lines(running, subject, inputs, outputs, comparisons, problems, notes, speed)),
        {
            "passed": passed,
            "op": subject.title,
            "kernel": running.entry,
            "comparisons": [asdict(c) for c in comparisons],
            "problems": problems,
            "notes": notes,
            "speed": asdict(speed) if speed else None,
        },
    )


def _lines(
    running: RunningLayer,
    subject: Subject,
    inputs: Mapping[str, InputArray],
    outputs: Mapping[str, Any],
    comparisons: Sequence[Comparison],
    problems: Sequence[str],
    notes: Sequence[str],
    speed: Speed | None,
) -> Iterator[str]:
    yield f"kernel {running.entry}, {subject.title}"
    for name, given in inputs.items():
        yield f"  in   {name_text(name)}: {_array_text(given.value)}, {given.origin}"
    for name, array in outputs.items():
        yield f"  out  {name_text(name)}: {_array_text(array)}, {_range_text(array)}"
    yield from (f"  {name_text(c.name)}: {c}" for c in comparisons)
    if not comparisons:
        yield "  compared with nothing: give --reference=file.py:function or --golden=out.npy"
    yield from (f"  FAILED: {problem}" for problem in problems)
    yield from (f"  note: {note}" for note in notes)
    if speed:
        yield from (f"  {line}" for line in speed.lines())


def _read_inputs(subject: Subject, request: Mapping[str, Any]) -> dict[str, InputArray]:
    """Values of the inputs that are no constants, by name and in order."""
    specs = _specs(subject.model.subgraphs[0].inputs, "input")
    given = read_inputs(request["input"], specs, _RANGE)
    return complete_inputs(given, specs, request["seed"], _RANGE)


def _compare(
    op: Op,
    inputs: Mapping[str, InputArray],
    outputs: Mapping[str, Any],
    request: Mapping[str, Any],
) -> list[Comparison]:
    """The outputs beside golden ones, then beside the reference's."""
    expected = _golden(op, request["golden"])
    if request["reference"]:
        arrays = call_reference(
            request["reference"], _all_inputs(op, inputs), _options(op), len(op.outputs)
        )
        expected |= dict(zip(outputs, arrays, strict=True))
    return compare(outputs, expected, request["tolerance"])


def _golden(op: Op, paths: Sequence[str]) -> dict[str, Any]:
    specs = _specs(op.outputs, "output")
    whole = [path for path in paths if path.endswith(".npz")]
    single = read_inputs([path for path in paths if path not in whole], specs, _RANGE)
    found = {name: array.value for name, array in single.items()}
    for path in whole:
        found |= find_arrays(path, specs, "out")
    return found


def _all_inputs(op: Op, inputs: Mapping[str, InputArray]) -> list[Any]:
    """What the reference gets: each input of the op, constants included."""
    from vendor_reference.authoring.layer_run import constant_value

    subgraph_inputs = dict(zip(inputs, inputs.values(), strict=True))
    names = iter(subgraph_inputs)
    by_tensor: dict[Tensor, Any] = {}
    for tensor in op.inputs:
        if tensor is None or tensor in by_tensor:
            continue
        is_constant = tensor.is_constant or tensor.producer is not None
        by_tensor[tensor] = (
            constant_value(tensor) if is_constant else subgraph_inputs[next(names)].value
        )
    return [None if tensor is None else by_tensor[tensor] for tensor in op.inputs]


def _options(op: Op) -> Mapping[str, Any] | bytes:
    from litert.model.custom_options import find_flexbuffer_options

    data = bytes(op.custom_options or b"")
    found = find_flexbuffer_options(data)
    return found if isinstance(found, Mapping) else data


def _specs(tensors: Sequence[Tensor | None], kind: str) -> list[TensorSpec]:
    return [
        TensorSpec(name, str(tensor.element_type.numpy_dtype), tensor.shape)
        for name, tensor in zip(_names(tensors, kind), tensors, strict=True)
        if tensor is not None
    ]


def _names(tensors: Sequence[Tensor | None], kind: str) -> list[str]:
    """Names of tensors; where they are not there, or not unique, `input0` and its like."""
    names = [tensor.name if tensor else "" for tensor in tensors]
    if all(names) and len(set(names)) == len(names):
        return names
    return [f"{kind}{index}" for index in range(len(names))]


def _array_text(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _range_text(array: Any) -> str:
    if not array.size or array.dtype.kind not in "biuf":
        return "nothing to measure"
    return f"{float(array.min()):.6g} to {float(array.max()):.6g}, mean {float(array.mean()):.6g}"


def _define_flags(flags: FlagValues) -> None:
    from absl.flags import (
        DEFINE_enum,
        DEFINE_float,
        DEFINE_integer,
        DEFINE_multi_string,
        DEFINE_string,
    )

    define_layer_flags(flags)
    DEFINE_multi_string(
        "input",
        [],
        "[input=]file: a .npy or .npz for an input, by name or index; without one, for the next. Inputs that have "
        "none are random, real ones from -1 to 1.",
        flag_values=flags,
    )
    DEFINE_integer("seed", 0, "Of random inputs.", lower_bound=0, flag_values=flags)
    DEFINE_string(
        "reference",
        "",
        "file.py:function to compare with: it gets a list of all inputs, constants too, and the op's options (a "
        "dictionary, or the bytes of a C struct), and returns the outputs.",
        flag_values=flags,
    )
    DEFINE_multi_string(
        "golden",
        [],
        "[output=]file: a .npy or .npz with outputs to compare with.",
        flag_values=flags,
    )
    DEFINE_float(
        "tolerance",
        1e-4,
        "The greatest difference that passes.",
        lower_bound=0,
        flag_values=flags,
    )
    DEFINE_multi_string(
        "output", [], "[output=]file: a .npy or .npz to write an output to.", flag_values=flags
    )
    DEFINE_integer(
        "repeat",
        20,
        "Runs that are measured; 0 measures nothing.",
        lower_bound=0,
        flag_values=flags,
    )
    DEFINE_string(
        "flops",
        "",
        "Floating-point operations of a run: a formula over B, F, Y, X of output 0, such as 2*B*F*Y*X.",
        flag_values=flags,
    )
    DEFINE_enum("report", "text", ["text", "json"], "text or json.", flag_values=flags)


def _run(flags: FlagValues, arguments: Sequence[str]) -> int:
    path = check_asset(arguments[0])
    request = {**layer_request(flags, path), **{name: flags[name].value for name in _OWN}}
    found = run_safely(f"{__name__}:run", request, path=path, timeout_s=flags.timeout_s)
    return found.show(flags.report)


COMMAND = Command(
    "FILE\nRuns a layer on one op, on the device, compares it with a reference or golden arrays, and measures it\n"
    "beside the device's own limits. The exit status is 1 if an output differs by more than the tolerance,\n"
    "or the kernel does what it must not: it writes past its tensors, or leaves part of an output unwritten.",
    _define_flags,
    _run,
    num_arguments=1,
)
