"""A compiler plugin for the ops of all probes and the custom op Triple; its byte code is graphs in JSON.

The environment variable NUMERIC_FAULT names a fault. The plugin makes the fault `swapped` and faults of compiling;
the driver makes the others.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    OpList,
)
from litert.conformance.probe import find_probes
from litert.core.compiler_options import CompilerOptions
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Subgraph, Tensor


class NumericPlugin(CompilerPlugin):
    """The plugin for one compilation."""

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        names = {"Triple", *(probe.op for probe in find_probes())}
        for op in subgraph.ops:
            if op.name in names:
                op_list.push(op)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        fault = os.environ.get("NUMERIC_FAULT", "")
        for subgraph in partitions:
            names = [op.name for op in subgraph.ops]
            if fault == "compiles no TANH" and "TANH" in names:
                os._exit(3)
            if fault == "only with Triple" and "Triple" not in names:
                raise LiteRtError(Status.UNSUPPORTED, "there is no Triple")
        functions = {f"f{i}": _function(subgraph) for i, subgraph in enumerate(partitions)}
        constants = {
            _key(tensor): base64.b64encode(tensor.data).decode()
            for subgraph in partitions
            for tensor in subgraph.tensors
            if tensor.is_constant
        }
        code = {"functions": functions, "constants": constants}  # partitions may share constants
        byte_code = Blob(json.dumps(code).encode())
        return CompiledResult([byte_code], [CallInfo(name) for name in functions])

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        return ()

    def close(self) -> None:
        pass


def _function(subgraph: Subgraph) -> dict[str, Any]:
    tensors = list(subgraph.tensors)
    inputs = [tensors.index(tensor) for tensor in subgraph.inputs]
    ops: list[dict[str, Any]] = [
        {
            "name": op.name,
            "options": dict(op.options.fields()) if op.options else {},
            "inputs": [None if each is None else tensors.index(each) for each in op.inputs],
            "output": tensors.index(op.outputs[0]),
        }
        for op in subgraph.ops
    ]
    if os.environ.get("NUMERIC_FAULT") == "swapped" and len(ops) == 1:
        given = iter(inputs)  # as if the op read its inputs in the call's order
        order = [next(given, each) if each in inputs else each for each in ops[0]["inputs"]]
        ops[0]["inputs"] = order
    return {
        "tensors": [_tensor(tensor) for tensor in tensors],
        "inputs": inputs,
        "outputs": [tensors.index(tensor) for tensor in subgraph.outputs],
        "ops": ops,
    }


def _key(tensor: Tensor) -> str:
    return sha256(tensor.data).hexdigest()


def _tensor(tensor: Tensor) -> dict[str, Any]:
    quantization = tensor.quantization
    return {
        "type": str(tensor.element_type.numpy_dtype),
        "shape": tensor.shape,
        "data": _key(tensor) if tensor.is_constant else None,
        "scales": list(quantization.scale) if quantization else [],
        "zero_point": quantization.zero_point[0] if quantization else 0,
        "axis": quantization.quantized_dimension if quantization else 0,
    }


class NumericPluginFactory(CompilerPluginFactory):
    """The factory of the vendor Numeric."""

    soc_manufacturer = "Numeric"
    soc_models = ("N1",)

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        return NumericPlugin()


PLUGIN = NumericPluginFactory()
