"""Code of the child process that calls a library of CPU layers for the compiler.

The library may crash or hang this process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from litert.core.checked_json import JsonNode
from litert.core.errors import LiteRtError, file_error
from litert.core.status import Status
from vendor_reference.cpu_layer.choice import Choice, choose
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.executable.cpu_op import CPU_CONFIG, CPU_OP, CpuOp, MemoryLayout


def ask(request: Mapping[str, Any]) -> Iterator[object]:
    """Loads a library of CPU layers, and chooses an implementation for each op.

    Args:
      request: `path`, `sha256` and `file_name` of the library; `op_name`, the name of the op for which the user
        gave the library; `ops` (see `CPU_OP`) with their largest shapes, in execution order; `producers`: for each
        input of each op, the op and output that make the input, or null; `patterns`: for each op, the shapes of
        its `inputs` and `outputs` in the model.

    Yields:
      First `library`, `layer_types` and the `layer_type` of the ops. Then for each op: the index `implementation`,
      the implementation's `name`, the `config`, the number of `reorders`, and whether the library has a function
      for shapes (`says_shapes`).

    Raises:
      LiteRtError: The library cannot be loaded, returns invalid values, or cannot run an op.
    """
    where = request["file_name"]
    with _loaded(request) as library:
        layer_type = _layer_type(library, request)
        types = list(library.layer_types())
        yield {"library": str(library), "layer_types": types, "layer_type": layer_type}
        choices: list[Choice] = []
        known: dict[object, Choice] = {}
        asked = zip(request["ops"], request["producers"], request["patterns"], strict=True)
        for value, producers, pattern in asked:
            op = _op(value, layer_type, where)
            incoming = [p and choices[p[0]].config.outputs[p[1]].layout for p in producers]
            same = (replace(op, name=""), tuple(incoming), repr(pattern))
            if same not in known:
                known[same] = _choose(library, op, incoming, pattern, where)
            choices.append(known[same])
            yield {
                "implementation": choices[-1].implementation,
                "name": choices[-1].name,
                "config": CPU_CONFIG.dump(choices[-1].config),
                "reorders": choices[-1].reorders,
                "says_shapes": bool(library.table.get_output_shapes),
            }


def ask_shapes(request: Mapping[str, Any]) -> Iterator[object]:
    """Loads a library of CPU layers, and calls its function for the shapes of an op's outputs.

    Args:
      request: `path`, `sha256`, `file_name` and `op_name` in the form that `ask` takes; the `op`,
        and the shapes of its `outputs` in the model.

    Yields:
      The shapes of the outputs; null if the library has no function for shapes.

    Raises:
      LiteRtError: The errors that the function `ask` raises.
    """
    with _loaded(request) as library:
        op = _op(request["op"], _layer_type(library, request), request["file_name"])
        yield library.output_shapes(op, request["outputs"])


def ask_types(request: Mapping[str, Any]) -> Iterator[object]:
    """Loads a library of CPU layers, and calls its function for the layer types.

    Args:
      request: `path`, `sha256` and `file_name` in the form that `ask` takes.

    Yields:
      A list of the library's layer types.

    Raises:
      LiteRtError: The errors that the function `ask` raises.
    """
    with _loaded(request) as library:
        yield list(library.layer_types())


@contextmanager
def _loaded(request: Mapping[str, Any]) -> Iterator[CpuLayerLibrary]:
    where = request["file_name"]
    library = CpuLayerLibrary(memoryview(_read(request["path"], request["sha256"], where)), where)
    try:
        yield library
    finally:
        library.close()


def _layer_type(library: CpuLayerLibrary, request: Mapping[str, Any]) -> str:
    """Returns the library's layer type for the op."""
    types = library.layer_types()
    layer_type = request["op_name"] if len(types) > 1 else types[0]
    if layer_type not in types:
        raise LiteRtError(
            Status.NOT_FOUND,
            f"the library has no layer for op '{layer_type}': its layer types are {', '.join(types)}",
            request["file_name"],
            "If a library has several layer types, one of them must have exactly the op's name.",
        )
    return layer_type


def _op(value: object, layer_type: str, where: str) -> CpuOp:
    op = CPU_OP.read(JsonNode(value, "$", where, Status.INVALID_ARGUMENT))
    return replace(op, layer_type=layer_type)


def _read(path: str, sha256: str, where: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise file_error(error, "cannot read", where) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        what = "another program changed the temporary copy of the library"
        raise LiteRtError(Status.FILE_IO, what, where, "Try again.")
    return data


def _choose(
    library: CpuLayerLibrary,
    op: CpuOp,
    incoming: Sequence[MemoryLayout | None],
    pattern: Mapping[str, Sequence[Any]],
    where: str,
) -> Choice:
    said = library.output_shapes(op, pattern["outputs"])
    for index, (shape, known) in enumerate(zip(said or (), pattern["outputs"], strict=False)):
        if any(k not in (-1, d) for k, d in zip(known, shape, strict=True)):
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"{library} computes the shape {list(shape)} for output {index}, but the output has "
                f"shape {list(known)} in the model",
                f"{where}, {op.place}",
            )
    try:
        patterns = [*pattern["inputs"], *pattern["outputs"]]
        return choose(library, op.with_output_shapes(said) if said else op, incoming, patterns)
    except LiteRtError as error:
        raise LiteRtError(error.status, error.what, f"{where}, {op.place}", error.hint) from None
