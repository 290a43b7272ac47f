"""Makes the external IE functions that represent kernels of custom layers, with requirements for their calls.

A layer can require formats and precisions for its op's tensors, and says whether the tensors can be views.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from litert.model.graph import Op, Tensor
from vendor_reference.compiler.frontend.cpu_layer import (
    cpu_layer_kernel,
    cpu_layer_requirements,
    memory_type,
    tensor_configs,
)
from vendor_reference.compiler.frontend.layer_kernel import (
    layer_kernel,
    layer_sources,
    tensor_bindings,
)
from vendor_reference.compiler.frontend.layer_shapes import LayerShapes
from vendor_reference.compiler.half_tensors import HalfPolicy, HalfTensors, kernel_type
from vendor_reference.compiler.ir.attributes import TASK
from vendor_reference.compiler.ir.kernel_attribute import kernel_attributes
from vendor_reference.compiler.ir.names import SymbolNames
from vendor_reference.compiler.tensor_requirements import (
    Requirements,
    TensorRequirement,
    requirement_attributes,
)
from vendor_reference.custom_layers.custom_layer import CustomLayer
from vendor_reference.custom_layers.kernel_spec import (
    CpuKernel,
    KernelArgument,
    KernelSpec,
    TensorArgument,
)
from vendor_reference.custom_layers.layout import Format, format_order
from vendor_reference.executable.executable import Source

_FORMAT_NAME = re.compile(rb"\b((?:INPUT|OUTPUT)\d+)_FORMAT_")


class LayerFunctions:
    """The functions of a module's layers, in order; ops with the same kernel and types share one function."""

    def __init__(
        self,
        taken: Sequence[str],
        cpu_kernels: Mapping[Op, CpuKernel],
        halves: HalfPolicy,
        notes: list[str],
    ) -> None:
        """Makes an empty object.

        No function gets a name in `taken`. `cpu_kernels` holds the implementations chosen for ops of CPU layers.
        Sentences for the report are added to `notes`.
        """
        self.made: list[FuncOp] = []
        self._names = SymbolNames(taken)
        self._cpu_kernels = cpu_kernels
        self._halves = halves
        self._notes = notes
        self._sources: dict[str, tuple[Sequence[Source], Sequence[Source]]] = {}
        self._formats: dict[str, Collection[str]] = {}
        self._symbols: dict[object, str] = {}

    def symbol(self, op: Op, layer: CustomLayer, has_fp16: bool) -> str:
        """Returns the name of the function that represents an op's kernel.

        `has_fp16` says whether the function is for devices with fp16 arithmetic.
        """
        kernel = self._cpu_kernels.get(op)
        spec = self.kernel(op, layer)
        requirements = (
            cpu_layer_requirements(kernel)
            if kernel is not None
            else self.requirements(op, layer, has_fp16)
        )
        inputs, outputs = _layer_types(op, kernel)
        same = (spec, requirements, inputs, outputs, layer.type)
        symbol = self._symbols.get(same)
        if symbol is None:
            symbol = self._symbols[same] = self._names.new(op.name)
            shapes = LayerShapes(op, layer, self._names, kernel)
            function = FuncOp.external(symbol, inputs, outputs)
            attributes: dict[str, Attribute] = {
                **requirement_attributes(requirements),
                TASK: StringAttr(layer.type.value),
                **kernel_attributes(spec),
                **shapes.attributes(),
            }
            function.attributes.update(attributes)
            self.made += [*shapes.functions(spec), function]
            self._notes += shapes.notes()
        return symbol

    def kernel(self, op: Op, layer: CustomLayer) -> KernelSpec:
        """Returns the kernel of an op."""
        if layer.op_name not in self._sources:
            self._sources[layer.op_name] = layer_sources(layer)
        sources = self._sources[layer.op_name]
        kernel = self._cpu_kernels.get(op)
        if kernel is not None:
            return cpu_layer_kernel(layer, op, kernel, sources[0])
        return layer_kernel(layer, op, sources, self._notes)

    def requirements(self, op: Op, layer: CustomLayer, has_fp16: bool) -> Requirements:
        """Returns a kernel's requirements for an op's tensors, for devices with or without fp16 arithmetic."""
        is_half = self._halves.is_half(op.name, has_fp16)
        formats = self._named_formats(layer)
        return layer_requirements(tensor_bindings(layer, op), op, is_half, formats)

    def is_by_device(self, op: Op, layer: CustomLayer) -> bool:
        """Returns whether the device chooses the element type in which an op's kernel gets half tensors."""
        if self._halves.tensors is not HalfTensors.DEVICE or op in self._cpu_kernels:
            return False
        bindings, formats = tensor_bindings(layer, op), self._named_formats(layer)
        halves = layer_requirements(bindings, op, True, formats)
        if layer_requirements(bindings, op, False, formats) == halves:
            return False
        where = f"{layer.file_name}, op '{op.name}'"
        if op.name in self._halves.half_ops:
            self._notes.append(
                f"{where}: the kernel gets half tensors as half on every device, because the kernel "
                "declares half*."
            )
            return False
        self._notes.append(
            f"{where}: the kernel gets half tensors as half on devices with fp16 arithmetic, and as "
            "float on other devices; the device decides when it loads the model. To decide now, set "
            "--reference_fp16=half or --reference_fp16=float."
        )
        return True

    def _named_formats(self, layer: CustomLayer) -> Collection[str]:
        """Returns the tensors, such as `INPUT0`, whose format a layer's source code checks.

        The source code handles each known format.
        """
        if layer.op_name not in self._formats:
            texts = (file.data for file in layer.files())
            found = {name.decode() for text in texts for name in _FORMAT_NAME.findall(text)}
            self._formats[layer.op_name] = found
        return self._formats[layer.op_name]


def _layer_types(
    op: Op, kernel: CpuKernel | None
) -> tuple[tuple[Attribute, ...], tuple[Attribute, ...]]:
    """Returns the types of an op's inputs and outputs in the layouts that the layer requires.

    Omitted inputs have no type.
    """
    inputs, outputs = tensor_configs(op, kernel)
    return (
        tuple(memory_type(t, c) for t, c in zip(op.inputs, inputs, strict=True) if t is not None),
        tuple(memory_type(t, c) for t, c in zip(op.outputs, outputs, strict=True)),
    )


def layer_requirements(
    bindings: Sequence[KernelArgument], op: Op, is_half: bool, formats: Collection[str]
) -> Requirements:
    """Returns the requirements of a layer for the op's outputs, and for the inputs that are not omitted.

    Elements keep the model's type unless the layer requires another type, because kernels are written for the
    model's type. `is_half` says whether the kernel gets half tensors as half instead of float. A kernel that
    requires no format gets tensors in row order. A kernel that uses pitches accepts tensors in any order. The
    tensors in `formats` are an exception, because the source code handles them only in orders that are formats. If
    a tensor is bound to several arguments, the first argument determines its requirements.
    """
    first: dict[tuple[bool, int], TensorArgument] = {}
    for binding in bindings:
        if isinstance(binding, TensorArgument):
            first.setdefault((binding.is_output, binding.index), binding)

    def asked(is_output: bool, index: int, tensor: Tensor) -> TensorRequirement:
        binding = first.get((is_output, index))
        if binding is None:  # the kernel does not read it
            return TensorRequirement(strides=True)
        has_code = f"{'OUTPUT' if is_output else 'INPUT'}{index}" in formats
        takes_any = binding.format is Format.ANY and binding.is_strided and not has_code
        return TensorRequirement(
            None if takes_any else format_order(binding.format, len(tensor.shape)),
            kernel_type(tensor.element_type, binding.element_type, is_half),
            binding.is_strided,
        )

    return Requirements(
        tuple(asked(False, i, tensor) for i, tensor in enumerate(op.inputs) if tensor is not None),
        tuple(asked(True, i, tensor) for i, tensor in enumerate(op.outputs)),
    )
