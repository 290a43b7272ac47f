"""Converts partitions of a TFLite model to an IE module. Each partition and each custom kernel becomes a function.

Custom ops become calls. Constants become resources: a table beside the module holds their bytes, and the IR refers
to them by key. A DEQUANTIZE of a constant becomes the constant itself; the device dequantizes the constant when it
loads the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseResourceAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.graph import Op, Subgraph, Tensor
from litert.model.sparsity import densify
from vendor_reference.compiler.frontend.cpu_layer import find_blocks, memory_type, tensor_configs
from vendor_reference.compiler.frontend.layer_functions import LayerFunctions
from vendor_reference.compiler.frontend.layer_shapes import (
    argument_bounds,
    bound_notes,
    check_bounds,
    result_bounds,
)
from vendor_reference.compiler.ir.attributes import FP16_OF, set_soc
from vendor_reference.compiler.ir.edits import call
from vendor_reference.compiler.ir.kernel_attribute import kernel_attributes
from vendor_reference.compiler.ir.names import name_attribute, readable_name, taps_attribute
from vendor_reference.compiler.ir.types import tensor_type
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.largest_shapes import find_bounds
from vendor_reference.compiler.levels.blocks import PackOp, UnpackOp, layout_attributes
from vendor_reference.compiler.levels.ie import ConstantOp, CopyOp, CustomBinaryLayerOp
from vendor_reference.compiler.op_selection import find_refusal, is_builtin
from vendor_reference.compiler.overriding import find_layer
from vendor_reference.compiler.tensor_requirements import requirement_attributes
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import CpuKernel
from vendor_reference.executable.cpu_op import MemoryLayout
from vendor_reference.executable.executable import Constant, Dequantization

_E = ElementType


@dataclass(frozen=True, slots=True)
class Imported:
    """Partitions as IE functions, constants by the keys of the module's resources, and notes for the report."""

    module: ModuleOp
    constants: Mapping[str, Constant]
    notes: Sequence[str]


def import_partitions(
    job: Job, partitions: Sequence[Subgraph], cpu_kernels: Mapping[Op, CpuKernel] | None = None
) -> Imported:
    """Makes a module with a function `Partition_<n>` for each partition.

    If the device chooses the type of half tensors, each partition also has a function `Partition_<n>_fp16`, which
    replaces `Partition_<n>` on devices with fp16 arithmetic. `cpu_kernels` holds the implementations chosen for
    ops of CPU layers.

    Raises:
      LiteRtError: UNSUPPORTED, if a partition has an op that the NPU does not support; INVALID_ARGUMENT, if an
        asset does not fit its op.
    """
    named = {f"Partition_{index}": partition for index, partition in enumerate(partitions)}
    taken = [*named, *map(_fp16_name, named)]
    importer = _Importer(job, taken, cpu_kernels or {})
    functions = [_FunctionImport(importer, p, False).make(name) for name, p in named.items()]
    for name, partition in named.items():
        if importer.is_by_device(partition):
            function = _FunctionImport(importer, partition, True).make(_fp16_name(name))
            function.attributes[FP16_OF] = SymbolRefAttr(name)
            functions.append(function)
    module = ModuleOp([*importer.layer_functions.made, *functions])
    set_soc(module, job.soc)
    return Imported(module, importer.table.constants, list(dict.fromkeys(importer.notes)))


class _Importer:
    """The state that the functions of a module share."""

    def __init__(self, job: Job, taken: Sequence[str], cpu_kernels: Mapping[Op, CpuKernel]) -> None:
        self.table = ConstantTable()
        self.notes: list[str] = []
        self.layer_functions = LayerFunctions(taken, cpu_kernels, job.halves, self.notes)
        self.job = job
        self.cpu_kernels = cpu_kernels

    def is_by_device(self, partition: Subgraph) -> bool:
        """Returns whether the device decides the type that some kernel of a partition gets for half tensors."""
        found = [(op, find_layer(op, self.job.layers)) for op in partition.ops]
        by_device = [
            self.layer_functions.is_by_device(op, layer) for op, layer in found if layer is not None
        ]
        return any(by_device)


class _FunctionImport:
    """Imports a partition, for devices with or without fp16 arithmetic."""

    def __init__(self, module: _Importer, partition: Subgraph, has_fp16: bool) -> None:
        self._module = module
        self._job = module.job
        self._partition = partition
        self._has_fp16 = has_fp16
        self._bounds = find_bounds(partition, self._job.bounds, self._job.layers)
        self._values: dict[Tensor, SSAValue] = {}
        self._ops: list[Operation] = []
        self._blocks: dict[tuple[SSAValue, MemoryLayout], SSAValue] = {}
        self._codes: dict[str, ConstantOp] = {}
        self._shown: set[str] = set()
        self._dense: dict[Tensor, Blob] = {}

    def make(self, name: str) -> FuncOp:
        """Makes the function on IE."""
        partition, values, ops = self._partition, self._values, self._ops
        check_bounds(partition, self._bounds, self._job.soc)
        self._check()
        arguments = [_type(tensor) for tensor in partition.inputs]
        block = Block(arg_types=arguments)
        values.update(zip(partition.inputs, block.args, strict=True))
        outputs = set(partition.outputs)
        copies: dict[Tensor, SSAValue] = {}
        for op in partition.ops:
            layer = find_layer(op, self._job.layers)
            if layer is not None:
                self._custom(op, layer)
            elif is_builtin(op, self._job.library):
                self._builtin(op)
            else:
                self._dequantize(op)
                for tensor in outputs.intersection(op.outputs):  # another partition reads it
                    copy = CopyOp(self._operands([tensor]), [_type(tensor)])
                    ops.append(copy)
                    copies[tensor] = copy.outputs[0]
        results = [copies.get(tensor, values[tensor]) for tensor in partition.outputs]
        block.add_ops([*ops, ReturnOp(*results)])
        for one in reversed(ops):
            if isinstance(one, UnpackOp) and not list(one.outputs[0].uses):
                block.erase_op(one)  # all readers of the tensor take blocks
        for tensor, value in (*values.items(), *copies.items()):
            value.name_hint = readable_name(tensor.name)
        types = [_type(tensor) for tensor in partition.outputs]
        function = FuncOp(name, (arguments, types), Region(block))
        function.attributes.update(argument_bounds(partition.inputs, self._bounds))
        self._module.notes += bound_notes(partition, self._bounds)
        return function

    def _check(self) -> None:
        layers, library = self._job.layers, self._job.library
        ops = self._partition.ops
        if not any(find_layer(op, layers) or is_builtin(op, library) for op in ops):
            name = next((tensor.name for tensor in self._partition.outputs), "")
            what = f"constant '{name}' stays on the CPU, because the ops that read it stay there"
            raise LiteRtError(Status.UNSUPPORTED, what)
        for place, op in enumerate(ops):  # any op, if the host compiles whole subgraphs
            if reason := find_refusal(op, layers, library, self._bounds):
                where = f"op {place} of '{self._partition.name}'"
                raise LiteRtError(Status.UNSUPPORTED, f"{op.name}: {reason}", where)

    def _custom(self, op: Op, layer: CustomLayer) -> None:
        kernel = self._module.cpu_kernels.get(op)
        inputs, outputs = tensor_configs(op, kernel)
        given = zip(op.inputs, inputs, strict=True)
        layouts = [find_blocks(config) for tensor, config in given if tensor is not None]
        operands = self._operands([tensor for tensor in op.inputs if tensor is not None])
        operands = list(map(self._in_blocks, operands, layouts))
        types = [memory_type(t, config) for t, config in zip(op.outputs, outputs, strict=True)]
        code = _packed_in(layer, op)
        made: Operation
        if code is None:
            callee = SymbolRefAttr(self._module.layer_functions.symbol(op, layer, self._has_fp16))
            made = call(callee, operands, types)
            made.attributes.update(result_bounds(op, layer, self._bounds))
        else:
            made = self._binary_layer(op, layer, code, operands, types)
        made.attributes.update(name_attribute(op.outputs[0].name))
        self._ops.append(made)
        plain = [
            t for t, config in zip(op.outputs, outputs, strict=True) if not find_blocks(config)
        ]
        self._tap(made, [tensor if tensor in plain else None for tensor in op.outputs])
        for tensor, result, config in zip(op.outputs, made.results, outputs, strict=True):
            self._values[tensor] = result
            if (layout := find_blocks(config)) is not None:
                unpack = UnpackOp([result], [_type(tensor)], layout_attributes(layout))
                self._ops.append(unpack)
                self._tap(unpack, [tensor])
                self._values[tensor] = unpack.outputs[0]
                self._blocks[unpack.outputs[0], layout] = result

    def _in_blocks(self, value: SSAValue, layout: MemoryLayout | None) -> SSAValue:
        """Returns a value in the layout that a layer requires.

        Converts each value to a blocked layout only once.
        """
        if layout is None:
            return value
        if (value, layout) not in self._blocks:
            pack = PackOp.to(value, layout)
            self._ops.append(pack)
            self._blocks[value, layout] = pack.outputs[0]
        return self._blocks[value, layout]

    def _binary_layer(
        self,
        op: Op,
        layer: CustomLayer,
        code: bytes,
        operands: Sequence[SSAValue],
        results: Sequence[Attribute],
    ) -> CustomBinaryLayerOp:
        """Makes a layer with precompiled code: the code is an operand, and the kernel is an attribute."""
        key = self._module.table.add_code(layer.op_name, code)
        if key not in self._codes:
            code_type = tensor_type(_E.UINT8, (len(code),))
            self._codes[key] = ConstantOp(DenseResourceAttr.from_params(key, code_type))
            self._ops.append(self._codes[key])
        spec = self._module.layer_functions.kernel(op, layer)
        requirements = self._module.layer_functions.requirements(op, layer, self._has_fp16)
        attributes = {**requirement_attributes(requirements, prefix=""), **kernel_attributes(spec)}
        return CustomBinaryLayerOp(
            layer.type.value, self._codes[key].output, operands, results, attributes
        )

    def _builtin(self, op: Op) -> None:
        # Imported here, since most compilations need no library.
        from vendor_reference.compiler.library_layers import layer_attributes, library_layers

        rule = self._job.library[op.name]
        operands = [self._operand(tensor, rule.precision) for tensor in rule.operands(op)]
        attributes = layer_attributes(rule.attributes(op))
        layer = library_layers()[op.name](operands, list(map(_type, op.outputs)), attributes)
        layer.attributes.update(name_attribute(op.outputs[0].name))
        self._ops.append(layer)
        self._tap(layer, op.outputs)
        self._values.update(zip(op.outputs, layer.outputs, strict=True))

    def _tap(self, made: Operation, tensors: Sequence[Tensor | None]) -> None:
        """Stores the names of an op's outputs in an attribute, if taps are requested.

        `tensors` has None for an output without a tap.
        """
        if not self._job.taps:
            return
        names = []
        for tensor in tensors:
            is_shown = tensor is not None and tensor.type.layout.is_static
            name = tensor.name if tensor is not None and is_shown else ""
            names.append("" if name in self._shown else name)
            self._shown.add(name)
        made.attributes.update(taps_attribute(names))

    def _operands(self, tensors: Sequence[Tensor]) -> list[SSAValue]:
        """Returns tensors as values; makes a constant's value when the constant is first read."""
        for tensor in tensors:
            if tensor not in self._values:
                if not tensor.is_constant and tensor not in self._dense:
                    what = f"an op reads tensor '{tensor.name}', but no op writes it"
                    raise LiteRtError(Status.UNSUPPORTED, what)
                dense = self._dense.get(tensor)
                key = self._module.table.add(tensor, blob=dense)
                self._values[tensor] = self._constant(key, tensor.element_type, tensor)
        return [self._values[tensor] for tensor in tensors]

    def _operand(self, tensor: Tensor, precision: ElementType | None) -> SSAValue:
        """Returns a tensor in the form that a layer requires.

        The device converts half constants to float at load.
        """
        is_known = tensor.is_constant or tensor in self._dense
        if is_known and (tensor.element_type, precision) == (_E.FLOAT16, _E.FLOAT32):
            how, dense = stored_dequantization(tensor), self._dense.get(tensor)
            key = self._module.table.add(tensor, how, dense)
            return self._constant(key, _E.FLOAT32, tensor)
        (value,) = self._operands([tensor])
        return value

    def _dequantize(self, op: Op) -> None:
        assert op.inputs[0] is not None
        stored, result = op.inputs[0], op.outputs[0]
        if op.name == "DENSIFY":
            self._dense[result] = Blob(densify(stored))
            return
        how = stored_dequantization(stored)
        key = self._module.table.add(stored, how, self._dense.get(stored))
        self._values[result] = self._constant(key, result.element_type, result)

    def _constant(self, key: str, element_type: ElementType, tensor: Tensor) -> SSAValue:
        constant_type = tensor_type(element_type, tensor.shape)
        constant = ConstantOp(DenseResourceAttr.from_params(key, constant_type))
        self._ops.append(constant)
        return constant.output


def _packed_in(layer: CustomLayer, op: Op) -> bytes | None:
    """Returns the precompiled code of a layer, for an op of fixed shapes; None for ops that become calls."""
    if not all(t is None or t.type.layout.is_static for t in (*op.inputs, *op.outputs)):
        return None
    return next((file.packed_in for file in layer.sources if file.packed_in is not None), None)


def _fp16_name(name: str) -> str:
    return f"{name}_fp16"


def _type(tensor: Tensor) -> Attribute:
    return tensor_type(tensor.element_type, tensor.type.shape)


class ConstantTable:
    """A table of constants, with the key of a resource for each constant; equal constants are stored once."""

    def __init__(self) -> None:
        self.constants: dict[str, Constant] = {}
        self._keys: dict[object, str] = {}

    def add(
        self, tensor: Tensor, dequantization: Dequantization | None = None, blob: Blob | None = None
    ) -> str:
        """Adds a constant tensor, or a constant with the given data, and returns its key.

        Tensors with the same data share one key.
        """
        blob = blob or tensor.buffer.blob
        assert blob is not None
        tensor_type = RankedTensorType.of(tensor.element_type, tensor.shape)
        same = (id(blob), tensor_type, repr(dequantization))  # the constant keeps the blob alive
        return self._keep("constant", same, Constant(tensor_type, blob, dequantization))

    def add_code(self, name: str, code: bytes) -> str:
        """Adds a layer's code, which an asset contains; returns the key of the code. Kernels do not read code."""
        code_type = RankedTensorType.of(_E.UINT8, (len(code),))
        return self._keep("code", name, Constant(code_type, Blob(code)))

    def _keep(self, kind: str, same: object, constant: Constant) -> str:
        if same not in self._keys:
            self._keys[same] = f"{kind}_{len(self.constants)}"
            self.constants[self._keys[same]] = constant
        return self._keys[same]


def stored_dequantization(stored: Tensor) -> Dequantization:
    """Returns how the device converts a quantized constant to float32.

    `find_refusal` has already checked that the conversion is possible.
    """
    if stored.element_type is _E.FLOAT16:
        return Dequantization()
    quantization = stored.quantization
    assert quantization is not None
    scales = [float(s) for s in quantization.scale]
    zero_points = [int(z) for z in quantization.zero_point] or [0] * len(scales)
    dimension = quantization.quantized_dimension if len(scales) > 1 else 0
    return Dequantization(scales, zero_points, dimension)
