"""Runs a whole model (its CPU ops and NPU calls) in a child process that handles the host's requests."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dispatch.isolation.mapped_bytes import MappedTensor
from dispatch.isolation.plain import type_from_plain, type_to_plain
from dispatch.isolation.table_in_child import load_table
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.tensor_type import RankedTensorType
from litert.host.serving import OP_WORD, Handlers, ask_host, at_work, shared_words
from litert.model.blob import MappedFile

if TYPE_CHECKING:
    import numpy as np

    from litert.runtime.loaded_model import LoadedModel

ROOM, OPS, KERNELS = "room", "ops", "kernels"
"""Requests from the child process to the host.

With ROOM, the child process asks for shared memory for arrays. OPS contains the names of ops by their numbers.
KERNELS contains the source code of kernels, which the host writes to files.
"""


def serve_model(fd: int) -> Handlers:
    """Returns the functions that handle the host's requests, by name."""
    model = _ServedModel()
    names = ("load", "open", "details", "run")
    return {name: getattr(model, f"_{name}") for name in names}


class _ServedModel:
    """Handles the host's requests to load and run a model."""

    def _load(self, argument: Sequence[Any]) -> str:
        table = load_table(*argument)
        return table.host_side if table is not None else ""

    def _open(self, argument: Mapping[str, Any]) -> Mapping[str, Any]:
        from litert.compiled_model import (
            CompiledModel,
        )  # here, in the sandbox: the import starts threads
        from litert.environment import Environment
        from litert.options import CpuOptions, HardwareAccelerator, Options
        from litert.runtime.loading import load_model

        environment = Environment.create(options=EnvironmentOptions(**argument["environment"]))
        options = Options(
            HardwareAccelerator(argument["accelerators"]),
            CpuOptions(**argument["cpu_options"]),
            dispatch_options=argument["dispatch_options"],
        )
        self._memory_fd = argument["memory"]
        with at_work("stock LiteRT's interpreter, which opens the model"):
            file = MappedFile(argument["path"], argument["file"])
            take = partial(ask_host, KERNELS) if argument["dumps_kernels"] else None
            loaded = load_model(file, environment.options, options, take)
            self._marks = _Marks(loaded)
        self._model = CompiledModel(loaded, environment)
        return self._model.get_signature_list()

    def _details(self, argument: Sequence[str]) -> Mapping[str, Any]:
        kind, signature = argument
        if kind == "input":
            return self._model.get_input_tensor_details(signature)
        return self._model.get_output_tensor_details(signature)

    def _run(self, argument: Sequence[Any]) -> Sequence[str]:
        """Runs a signature, by default the first one, and writes the outputs to memory that the host allocates."""
        signature, given = argument
        inputs = {name: self._map(plain, offset) for name, plain, offset in given}
        try:
            outputs = self._model.run(inputs, signature)
        finally:
            shared_words()[OP_WORD] = 0
        types = [
            type_to_plain(RankedTensorType.of(ElementType.from_numpy(array.dtype), array.shape))
            for array in outputs.values()
        ]
        offsets = ask_host(ROOM, types)
        for array, plain, offset in zip(outputs.values(), types, offsets, strict=True):
            self._map(plain, offset)[...] = array
        return list(outputs)

    def _map(self, plain: Sequence[Any], offset: int) -> np.ndarray[Any, Any]:
        tensor_type = type_from_plain(plain)
        size = tensor_type.size_bytes
        mapped = MappedTensor(self._memory_fd, offset, size)
        return TensorBuffer(tensor_type, mapped.address, size, mapped).array()


class _Marks:
    """Writes the number of the running CPU op to a memory page shared with the host, if the system allows this."""

    def __init__(self, loaded: LoadedModel) -> None:
        from litert.runtime.op_hooks import OpHooks

        self._word = ctypes.addressof(ctypes.c_uint32.from_buffer(shared_words(), 4 * OP_WORD))
        self._subgraphs = loaded.subgraphs
        self._hooks = OpHooks(loaded.subgraphs)
        self._install()
        for signature in loaded.signatures:
            signature.subgraph.on_plan = self._install

    def _install(self) -> None:
        try:
            self._hooks.install(self._make)
        except LiteRtError:  # this system cannot run the machine code
            return
        ask_host(OPS, [self._name(*node) for node in self._hooks.nodes])

    def _make(self, originals: Sequence[int]) -> Sequence[int]:
        from litert.runtime.marking_code import OpMarks

        self._code = OpMarks(self._word, originals)
        return self._code.functions

    def _name(self, index: int, op: int) -> str:
        subgraph = self._subgraphs[index]
        ops = subgraph.delegated_ops(op)
        if not ops:
            return f"op {op}, {subgraph.op_name(op)}"
        names = dict.fromkeys(map(subgraph.op_name, ops))
        return f"XNNPACK's part with {len(ops)} ops: {', '.join(names)}"
