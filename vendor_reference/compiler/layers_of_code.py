"""Handles layers in IR text that are described only in their precompiled code.

Such a layer has the form `IE.CustomBinaryLayer VPUIP.OCL from %code`; its code is a file that `litert-npu layer
build` has made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Operation

from litert.core.compiler_options import CustomOpInfo
from litert.core.input_file import read_input
from litert.core.tensor_type import RankedTensorType
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph, Tensor
from vendor_reference.compiler.edited_ir import EditedIr
from vendor_reference.compiler.frontend.layer_functions import LayerFunctions
from vendor_reference.compiler.ir.kernel_attribute import KERNEL, kernel_attributes
from vendor_reference.compiler.ir.names import SymbolNames
from vendor_reference.compiler.ir.types import ranked_type
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.levels.ie import CustomBinaryLayerOp
from vendor_reference.compiler.levels.iert import BufferCustomBinaryLayerOp
from vendor_reference.compiler.levels.values import AnyConstantOp
from vendor_reference.compiler.levels.vpuip import TaskOp
from vendor_reference.compiler.tensor_requirements import requirement_attributes
from vendor_reference.executable.binary_layer import is_binary_layer, unpack_binary_layer
from vendor_reference.executable.executable import Constant

_BinaryLayer = CustomBinaryLayerOp | BufferCustomBinaryLayerOp


def write_code(
    edited: EditedIr,
    constants: Mapping[str, Constant],
    folder: str,
    given: Sequence[CustomOpInfo],
) -> tuple[list[CustomOpInfo], dict[Operation, str]]:
    """Writes the code of each layer that has no other description; the written files become assets.

    Returns the assets, and the op name of each layer. If a layer's code is equal to an asset in `given`, the layer
    uses that asset.

    Raises:
      LiteRtError: INVALID_IR_TYPE, if the code does not describe how to launch it; the error contains the line.
    """
    undescribed = list(_undescribed(edited))
    if not undescribed:
        return [], {}
    names, infos = SymbolNames([info.op_name for info in given]), list[CustomOpInfo]()
    found: dict[bytes, str] = {}
    for info in given:
        if info.asset_path.endswith(".bin"):
            found[read_input(info.asset_path)] = info.op_name
    layers: dict[Operation, str] = {}
    for op, task in undescribed:
        code = _code_of(op, constants)
        if code is None:
            continue  # another check reports that the constant is missing
        if task != "OCL" or isinstance(op, TaskOp) or not is_binary_layer(code):
            what = f"this code of kind {task} has no description of how to launch it"
            raise edited.error(op, what, _HINTS.get(task, _HINTS["OCL"]))
        if code not in found:
            layer = edited.checked(op, partial(unpack_binary_layer, code, edited.name))
            stem = os.path.splitext(os.path.basename(layer.description))[0]
            found[code] = names.new(stem)
            path = os.path.join(folder, f"code{len(infos)}.bin")
            with open(path, "wb") as file:
                file.write(code)
            infos.append(CustomOpInfo(found[code], path))
        layers[op] = found[code]
    return infos, layers


_HINTS = {
    "OCL": (
        f"Add {KERNEL} to the attributes. In IR of the level IE or IERT, you can also use code that "
        "`litert-npu layer build` has made."
    ),
    "CPP": "If the code is a library of CPU layers, call it with func.call, and pass the .so file as an asset.",
}


def describe_code(
    edited: EditedIr, layers: Mapping[Operation, str], job: Job, notes: list[str]
) -> None:
    """Adds attributes to a layer, according to the description in the layer's code.

    Attributes of the IR text take precedence.
    """
    for op, name in layers.items():
        assert isinstance(op, _BinaryLayer)
        inputs, outputs = map(ranked_type, op.inputs.types), map(ranked_type, op.outputs.types)
        (model_op,) = subgraph_of_op(name, list(inputs), list(outputs)).ops
        functions, asset = LayerFunctions([], {}, job.halves, notes), job.layers[name]
        kernel = edited.checked(op, partial(functions.kernel, model_op, asset))
        described = kernel_attributes(kernel)
        if isinstance(op, CustomBinaryLayerOp):
            requirements = functions.requirements(model_op, asset, has_fp16=False)
            described |= requirement_attributes(requirements, prefix="")
        op.attributes.update({k: v for k, v in described.items() if k not in op.attributes})


def subgraph_of_op(
    name: str, inputs: Sequence[RankedTensorType], outputs: Sequence[RankedTensorType]
) -> Subgraph:
    """Returns the subgraph of a model with one custom op."""
    b = ModelBuilder()
    read = [add_tensor(b.input, f"x{i}", t) for i, t in enumerate(inputs)]
    made = [add_tensor(b.tensor, f"y{i}", t) for i, t in enumerate(outputs)]
    b.custom(name, read, made)
    b.output(*made)
    return b.build().subgraphs[0]


def add_tensor(add: Any, name: str, of: RankedTensorType) -> Tensor:
    """Adds a tensor of the type `of`, which may have unknown dimensions."""
    signature = of.shape if -1 in of.shape else None
    tensor: Tensor = add(
        name, of.element_type, [abs(d) for d in of.shape], shape_signature=signature
    )
    return tensor


def _undescribed(edited: EditedIr) -> Iterator[tuple[Operation, str]]:
    """Yields layers and tasks of code without a kernel, with their kind, `OCL` or `CPP`."""
    for op in edited.ir.module.walk():
        if KERNEL in op.attributes:
            continue
        if isinstance(op, _BinaryLayer):
            yield op, op.task.data
        elif isinstance(op, TaskOp) and op.callee is None:
            yield op, op.name.removeprefix("VPUIP.")


def _code_of(op: Any, constants: Mapping[str, Constant]) -> bytes | None:
    """Returns the bytes of a layer's code; None if they are missing."""
    constant = op.code.owner
    if not isinstance(constant, AnyConstantOp):
        return b""
    if key := constant.key():
        return bytes(constants[key].data.view) if key in constants else None
    value = constant.constant()
    assert isinstance(value, DenseIntOrFPElementsAttr)
    return bytes(value.data.data)
