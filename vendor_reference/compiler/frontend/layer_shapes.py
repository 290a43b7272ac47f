"""Converts a custom layer's rules for run-time shapes to attributes of the layer's function in the IR."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from litert.core.errors import LiteRtError
from litert.core.output_shape import OutputShape, SameShape
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.model.graph import Op, Subgraph, Tensor
from vendor_reference.compiler.frontend.layer_kernel import constant_shape, program_source
from vendor_reference.compiler.ir.attributes import TASK
from vendor_reference.compiler.ir.kernel_attribute import kernel_attributes
from vendor_reference.compiler.ir.names import SymbolNames
from vendor_reference.compiler.ir.shape_attributes import (
    BOUNDS,
    INPUT_NAMES,
    OUTPUT_SHAPES,
    Formulas,
    FoundBy,
    ShapeSource,
    output_shapes_attribute,
    shapes_attribute,
)
from vendor_reference.compiler.ir.types import ShapeType
from vendor_reference.compiler.largest_shapes import Bounds
from vendor_reference.compiler.shape_rules import (
    ByKernel,
    alike_input,
    declared_shape,
    find_shape_rule,
    is_guessed,
)
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import (
    CpuKernel,
    KernelArgument,
    KernelSpec,
    ShapeArgument,
)
from vendor_reference.executable.executable import format_shape
from vendor_reference.soc import SocModel


class LayerShapes:
    """A layer's rules for those output shapes of an op that are not known from the model."""

    def __init__(
        self, op: Op, layer: CustomLayer, names: SymbolNames, cpu: CpuKernel | None
    ) -> None:
        self._op = op
        self._layer = layer
        self._cpu = cpu
        self._open = [i for i, t in enumerate(op.outputs) if _is_open(t)]
        self._finder = ""
        if self._open and (layer.shape_kernel is not None or (cpu and cpu.asked_shapes)):
            self._finder = names.new(f"shapes_of_{op.name}")

    def attributes(self) -> Mapping[str, Attribute]:
        """Returns the attribute `IE.output_shapes` with the layer's rules, if there are any."""
        if not self._open:
            return {}
        sources = [
            self._source(index) if index in self._open else None
            for index in range(len(self._op.outputs))
        ]
        return {OUTPUT_SHAPES: output_shapes_attribute(sources)}

    def functions(self, spec: KernelSpec) -> Sequence[FuncOp]:
        """Returns the separate function that computes shapes, if the layer has one.

        `spec` is the spec of the layer's main kernel.
        """
        if not self._finder:
            return ()
        arguments: list[KernelArgument] = []
        num_read = 0
        for tensor in self._op.inputs:
            if tensor is not None and _is_open(tensor):
                arguments.append(ShapeArgument(False, num_read))
                num_read += 1
            elif tensor is not None:
                arguments.append(constant_shape(tensor))
        arguments += [ShapeArgument(True, index) for index in range(len(self._open))]
        kernel = self._shape_kernel(spec, tuple(arguments))
        found = [ShapeType()] * len(self._open)
        function = FuncOp.external(self._finder, [ShapeType()] * num_read, found)
        task = StringAttr(self._layer.type.value)
        function.attributes.update({TASK: task, **kernel_attributes(kernel)})
        return [function]

    def _shape_kernel(self, spec: KernelSpec, arguments: tuple[KernelArgument, ...]) -> KernelSpec:
        """Returns the kernel that finds the shapes: a kernel of the layer, or its library."""
        title = f"{spec.title}, shapes"
        shape_kernel = self._layer.shape_kernel
        if shape_kernel is None:
            return replace(spec, title=title, arguments=arguments)
        return KernelSpec(
            title,
            arguments,
            where=spec.where,
            sources=tuple(program_source(self._layer, file) for file in shape_kernel.sources),
            headers=spec.headers,
            entry=shape_kernel.entry,
            defines=spec.defines,
            build_options=spec.build_options,
            op_name=spec.op_name,
        )

    def notes(self) -> Sequence[str]:
        """Returns the report's sentences about shapes that are assumed because the layer does not give them."""
        return [
            f"op '{self._op.name}': output {index} is assumed to have the shape of an input, "
            f"because the model declares both as {self._op.outputs[index].type}; output_shapes in a "
            "description (.json) can override this."
            for index in self._open
            if not self._finder and is_guessed(self._op, self._layer, index)
        ]

    def _source(self, index: int) -> ShapeSource:
        rule = find_shape_rule(self._op, self._layer, index)
        if self._finder:
            return FoundBy(self._finder)
        if rule is ByKernel.LIBRARY:  # the library leaves shapes to the model
            rule = alike_input(self._op, index)
        if rule is ByKernel.OWN:
            rule = declared_shape(self._layer, index)  # its bound
        assert not isinstance(rule, ByKernel)
        return _source(rule, self._op)


def argument_bounds(inputs: Sequence[Tensor], bounds: Bounds) -> Mapping[str, Attribute]:
    """Returns `IE.bounds` of a function, and the attribute with the model's names of its arguments.

    Returns no attributes if all shapes are fixed.
    """
    if not any(map(_is_open, inputs)):
        return {}
    largest = [bounds.shapes[t] if _is_open(t) else None for t in inputs]
    names = ArrayAttr([StringAttr(tensor.name) for tensor in inputs])
    return {BOUNDS: shapes_attribute(largest), INPUT_NAMES: names}


def result_bounds(op: Op, layer: CustomLayer, bounds: Bounds) -> Mapping[str, Attribute]:
    """Returns the attribute `IE.bounds` of a call, for outputs whose shapes a kernel computes."""
    found = [
        bounds.shapes[tensor]
        if _is_open(tensor) and isinstance(find_shape_rule(op, layer, index), ByKernel)
        else None
        for index, tensor in enumerate(op.outputs)
    ]
    return {BOUNDS: shapes_attribute(found)} if any(found) else {}


def check_bounds(partition: Subgraph, bounds: Bounds, soc: SocModel) -> None:
    """Rejects bounds with which a tensor does not fit into the memory of the SoC."""
    for tensor in (*partition.inputs, *partition.outputs):
        if _is_open(tensor) and tensor in bounds.shapes:
            largest = RankedTensorType.of(tensor.element_type, bounds.shapes[tensor])
            if largest.size_bytes > soc.ddr_size:
                raise LiteRtError(
                    Status.UNSUPPORTED,
                    f"tensor '{tensor.name}' with its largest shape {largest} needs {largest.size_bytes} bytes, "
                    f"but {soc.name} has only {soc.ddr_size} bytes of memory (DDR)",
                    hint="Give smaller --shape_bounds.",
                )


def bound_notes(partition: Subgraph, bounds: Bounds) -> Sequence[str]:
    """Returns a sentence about the largest shapes for which a partition has memory."""
    ends = dict.fromkeys((*partition.inputs, *partition.outputs))
    shown = [f"'{t.name}' {format_shape(bounds.shapes[t])}" for t in ends if _is_open(t)]
    if not shown:
        return []
    return [f"{partition.name} has memory for shapes up to {', '.join(shown)}."]


def _source(rule: OutputShape | None, op: Op) -> ShapeSource:
    if rule is None:
        return None
    if isinstance(rule, SameShape):
        left_out = sum(tensor is None for tensor in op.inputs[: rule.input])
        return SameShape(rule.input - left_out)
    return Formulas(tuple(formula.text for formula in rule))


def _is_open(tensor: Tensor) -> bool:
    return not tensor.type.layout.is_static
