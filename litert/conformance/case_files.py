"""Byte code for the checks of dispatch libraries: what the plugin makes of models, in files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from compiler_plugin.outline import extract, model_of
from litert.conformance.plugin_subject import PluginSubject
from litert.core.errors import LiteRtError
from litert.model.graph import Model, Subgraph, Tensor
from litert.model.writer import write_model


def write_cases(subject: PluginSubject, folder: str) -> Iterator[dict[str, object]]:
    """Compiles the models, each in one go; yields what `read_case` reads, or where nothing is to be run `why`."""
    for number, model in enumerate(subject.models):
        partitions = subject.partitions(model)
        if not partitions:
            yield {"source": model.name, "why": _why_nothing(model.model)}
            continue
        with subject.plugin() as plugin, plugin.compile(partitions) as result:
            paths = []
            for index, byte_code in enumerate(result.modules()):
                paths.append(os.path.join(folder, f"{number}_{index}.byte_code"))
                with open(paths[-1], "wb") as file:
                    file.write(byte_code)
            infos = [result.call_info(index) for index in range(len(partitions))]
        for index, (function, module) in enumerate(infos):
            name = model.name if len(partitions) == 1 else f"{model.name}, partition {index}"
            (subgraph,) = extract([partitions[index]])
            if why := _why_not(subgraph):
                yield {"source": model.name, "why": why}
                continue
            path = os.path.join(folder, f"{number}_{index}.tflite")
            write_model(model_of(subgraph), path)
            yield {
                "name": name,
                "source": model.name,
                "byte_code": paths[module],
                "function": function.decode("utf-8", "surrogateescape"),
                "inputs": _types(subgraph.inputs),
                "outputs": _types(subgraph.outputs),
                "model": path,
                "ops": sorted({op.name for op in subgraph.ops}),
            }


def _why_nothing(model: Model) -> str:
    """Why nothing of a model is run; a plugin in Python is asked as a shared library, which can give no shapes."""
    why = "the plugin takes none of its ops"
    if all(tensor.type.layout.is_static for op in model.ops() for tensor in op.outputs):
        return why
    return f"{why} (shapes that only a run tells are not for these checks)"


def _why_not(subgraph: Subgraph) -> str:
    """Why a partition cannot be run by the checks; "" where it can."""
    for tensor in [*subgraph.inputs, *subgraph.outputs]:
        if not tensor.type.layout.is_static:
            return f"tensor '{tensor.name}' has a shape that only a run tells"
        try:
            _ = tensor.element_type.numpy_dtype
        except LiteRtError as error:
            return error.what
    if not subgraph.inputs:
        return "it has no inputs"
    return ""


def _types(tensors: Sequence[Tensor]) -> list[object]:
    return [[int(tensor.element_type), list(tensor.shape)] for tensor in tensors]
