"""Byte code for the checks of dispatch libraries: what the plugin makes of models, in files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

from compiler_plugin.outline import extract, model_of
from litert.conformance.plugin_subject import PluginSubject, extract_all
from litert.core.errors import LiteRtError
from litert.model.graph import Model, Subgraph
from litert.model.writer import write_model


def write_cases(subject: PluginSubject, folder: str) -> Iterator[dict[str, object]]:
    """Compiles the models, each in one go.

    Yields:
      For each NPU call: `name`, for people, and `source`, the name of its model; `byte_code`, a file; `function`;
      `inputs` and `outputs`, as `[element type, shape]`; `model`, a TFLite file of the same ops; `ops`, their
      names. For what is not to be run: `source` and `why`.
    """
    for number, model in enumerate(subject.models):
        partitions = subject.partitions(model)
        if not partitions:
            yield {"source": model.name, "why": _why_nothing(model.model)}
            continue
        with subject.plugin() as plugin, plugin.compile(extract_all(partitions)) as result:
            paths = []
            for index in range(result.num_modules()):
                paths.append(os.path.join(folder, f"{number}_{index}.byte_code"))
                with open(paths[-1], "wb") as file:
                    file.write(result.module(index))
            infos = [result.call_info(index) for index in range(len(partitions))]
        for index, (partition, (function, module)) in enumerate(
            zip(partitions, infos, strict=True)
        ):
            name = model.name if len(partitions) == 1 else f"{model.name}, partition {index}"
            subgraph = extract(partition)
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
                "inputs": _types(subgraph, "inputs"),
                "outputs": _types(subgraph, "outputs"),
                "model": path,
                "ops": sorted({op.name for op in subgraph.ops}),
            }


def _why_nothing(model: Model) -> str:
    """Why nothing of a model is run; a plugin in Python is asked as a shared library, which can give no shapes."""
    shapes = [tensor.type.layout for op in model.ops() for tensor in op.outputs]
    if all(layout.is_static for layout in shapes):
        return "the plugin takes none of its ops"
    return (
        "the plugin takes none of its ops (shapes that only a run tells are not for these checks)"
    )


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


def _types(subgraph: Subgraph, ends: str) -> list[object]:
    tensors = subgraph.inputs if ends == "inputs" else subgraph.outputs
    return [[int(tensor.element_type), list(tensor.shape)] for tensor in tensors]
