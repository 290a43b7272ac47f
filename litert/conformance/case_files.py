"""Compiles models with a plugin, and writes the byte code to files, for the checks of dispatch libraries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from compiler_plugin.dependencies import find_dependencies
from compiler_plugin.leftovers import find_results
from compiler_plugin.outline import Partition, extract, make_partition, model_of
from compiler_plugin.partition import find_partitions
from litert.analysis.magnitudes import remove_signs
from litert.conformance.checks import BrokenRuleError
from litert.conformance.plugin_subject import NamedModel, PluginSubject
from litert.core.errors import LiteRtError
from litert.model.graph import Model, Subgraph, Tensor
from litert.model.writer import write_model


def write_cases(
    subject: PluginSubject, folder: str, first: int = 0, references: Collection[str] = ()
) -> Iterator[dict[str, object]]:
    """Compiles each model in a single call of the plugin's compiler.

    The outputs of a partition cannot be checked if the partition contains a custom op without a reference. The
    builtin ops of such a partition are therefore also compiled as separate calls, whose outputs can be checked.

    Args:
      subject: The plugin under check, with the models to compile.
      folder: Directory to which the files are written.
      first: Index of the first model to compile.
      references: Custom codes of the ops for which the user gave a reference function.

    Yields:
      For each model, an object `{"begin": name}`. Then, for each partition of the model, an object for
      `read_case`, which still lacks the keys that `add_expected` adds. If the partition cannot run, the object has
      the keys `source` and `why` instead.
    """
    for number, named in islice(enumerate(subject.models), first, None):
        yield {"begin": named.name}
        partitions = subject.partitions(named)
        if not partitions:
            yield {"source": named.name, "why": _why_nothing(named.model)}
            continue
        whole = _Compilation(subject, named, os.path.join(folder, str(number)))
        yield from whole.write(partitions)
        for place, rest in enumerate(_without_custom_ops(named.model, partitions, references)):
            part = _Compilation(subject, named, os.path.join(folder, f"{number}_{place}_rest"))
            what = f"builtin ops alone, call {place}"
            try:
                yield from part.write([rest], what)
            except BrokenRuleError as broken:  # taken only with the custom op
                why = f"without its custom op, {broken}"
                yield {"source": named.name, "name": f"{named.name}, {what}", "why": why}


@dataclass(frozen=True, slots=True)
class _Compilation:
    """Compiles a model's partitions to files whose names begin with `stem`."""

    subject: PluginSubject
    named: NamedModel
    stem: str

    def write(self, partitions: Sequence[Partition], what: str = "") -> Iterator[dict[str, object]]:
        """Compiles partitions and yields the same objects as `write_cases`."""
        compiled = self._compile(self.subject, partitions, self.stem)
        tapped: Sequence[tuple[str, str]] = ()
        if any(len(partition.ops) > 1 for partition in partitions):
            with suppress(BrokenRuleError):  # the checks of taps report the same error
                tapped = self._compile(self.subject.with_taps(), partitions, f"{self.stem}_tapped")
        for index, (partition, (path, function)) in enumerate(
            zip(partitions, compiled, strict=True)
        ):
            part = f"partition {index}" if len(partitions) > 1 else what
            case = self._case(f"{self.stem}_{index}", partition)
            if "why" not in case:
                case |= {
                    "name": ", ".join(filter(None, (self.named.name, part))),
                    "part": part,
                    "byte_code": path,
                    "function": function,
                }
                if tapped:
                    case["tapped"] = tapped[index]
            yield case

    @staticmethod
    def _compile(
        subject: PluginSubject, partitions: Sequence[Partition], stem: str
    ) -> list[tuple[str, str]]:
        """Compiles partitions; returns each partition's byte code file and function."""
        with subject.plugin() as plugin, plugin.compile(partitions) as result:
            paths = []
            for index, byte_code in enumerate(result.modules()):
                paths.append(f"{stem}_{index}.byte_code")
                with open(paths[-1], "wb") as file:
                    file.write(byte_code)
            infos = [result.call_info(index) for index in range(len(partitions))]
        return [(paths[module], name.decode("utf-8", "surrogateescape")) for name, module in infos]

    def _case(self, stem: str, partition: Partition) -> dict[str, object]:
        """Writes a partition's models to files; returns a description of the partition without byte code."""
        (subgraph,) = extract([partition])
        if why := _why_not(subgraph):
            return {"source": self.named.name, "why": why}
        write_model(model_of(subgraph), f"{stem}.tflite")
        names = Counter(tensor.name for tensor in subgraph.tensors)
        named = [tensor for tensor in subgraph.tensors if names[tensor.name] == 1]
        case: dict[str, object] = {
            "source": self.named.name,
            "inputs": _types(subgraph.inputs),
            "outputs": _types(subgraph.outputs),
            "tensors": {t.name: type_ for t, type_ in zip(named, _types(named), strict=True)},
            "range": self.named.range,
            "model": f"{stem}.tflite",
            "ops": [op.name for op in subgraph.ops],
            "signs": remove_signs(subgraph),
            "terms": f"{stem}.terms.tflite",
        }
        if case["signs"] is not None:
            write_model(model_of(subgraph), f"{stem}.terms.tflite")
        return case


def _without_custom_ops(
    model: Model, partitions: Sequence[Partition], references: Collection[str]
) -> list[Partition]:
    """Makes partitions from the builtin ops in those partitions that contain a custom op without a reference."""
    selected: dict[int, int] = {}
    for index, partition in enumerate(partitions):
        unknown = [op for op in partition.ops if op.is_custom and op.name not in references]
        if unknown:
            ops = zip(partition.positions, partition.ops, strict=True)
            selected |= {position: index for position, op in ops if not op.is_custom}
    if not selected:
        return []
    subgraph = model.subgraphs[0]
    dependencies = find_dependencies(subgraph, set(subgraph.ops), ())
    results = find_results(model, subgraph)
    return [
        make_partition(f"Rest_{index}", subgraph, positions, results)
        for index, positions in enumerate(find_partitions(dependencies, selected))
    ]


def _why_nothing(model: Model) -> str:
    """Returns a phrase about why the plugin takes no op of a model, such as shapes known only at run time."""
    why = "the plugin does not take its ops"
    if all(tensor.type.layout.is_static for op in model.ops() for tensor in op.outputs):
        return why
    return f"{why} (these checks do not cover shapes that are known only at run time)"


def _why_not(subgraph: Subgraph) -> str:
    """Returns a phrase about why the checks cannot run a partition; "" if they can run it."""
    for tensor in [*subgraph.inputs, *subgraph.outputs]:
        if not tensor.type.layout.is_static:
            return f"the shape of tensor '{tensor.name}' is known only at run time"
        try:
            _ = tensor.element_type.numpy_dtype
        except LiteRtError as error:
            return error.what
    if not subgraph.inputs:
        return "the partition has no inputs"
    return ""


def _types(tensors: Sequence[Tensor]) -> list[object]:
    return [[int(tensor.element_type), list(tensor.shape)] for tensor in tensors]
