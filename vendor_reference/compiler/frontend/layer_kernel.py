"""Converts a custom layer and its op to a kernel with values from the op's options and quantization.

If a layer's source code does not use the built-in defines of sizes that are known only at run time, the layer is
built only once for all shapes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import replace

from litert.core.counts import count_text
from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.graph import Op, Tensor
from vendor_reference.compiler.simplegpu_defines import layer_defines, uses_init
from vendor_reference.custom_layers.cl_types import STRUCT_FORMATS
from vendor_reference.custom_layers.custom_layer import CustomLayer, LayerFile
from vendor_reference.custom_layers.kernel_source import decode_source
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    DataArgument,
    InternalArgument,
    KernelArgument,
    KernelSpec,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import OpValues, Value, find_data_input
from vendor_reference.executable.executable import Source
from vendor_reference.executable.size_arguments import SIZE_DEFINES

_SIZES = re.compile(rf"\b{SIZE_DEFINES}(?:_INIT)?\b")


def layer_kernel(
    layer: CustomLayer,
    op: Op,
    sources: tuple[Sequence[Source], Sequence[Source]],
    notes: list[str],
) -> KernelSpec:
    """Returns the kernel of an op, with the layer's sources and headers.

    Sentences for the report are added to `notes`.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the layer does not fit the op; the error names the asset and the op.
    """
    try:
        values = OpValues(op)
        arguments = _arguments(tensor_bindings(layer, op), op, values)
        defines = tuple(layer_defines(layer, op, values, notes))
    except LiteRtError as error:
        where = ", ".join(dict.fromkeys((layer.file_name, f"op '{op.name}'")))
        raise LiteRtError(error.status, error.what, where, error.hint) from error
    return replace(
        layer.kernel,
        title=layer.kernel.title or layer.op_name,
        arguments=arguments,
        sources=tuple(sources[0]),
        headers=tuple(sources[1]),
        defines=defines,
        uses_init=uses_init(
            [*(f.data for f in layer.files()), *(text.encode() for _, text in defines)]
        ),
        op_name=op.name,
        absent_inputs=tuple(i for i, tensor in enumerate(op.inputs) if tensor is None),
        flat_inputs=tuple(
            find_data_input(op, binding.name)
            for binding in layer.kernel.arguments
            if isinstance(binding, DataArgument) and binding.is_flat
        ),
        mentions=find_mentions(layer, op),
    )


def layer_sources(layer: CustomLayer) -> tuple[Sequence[Source], Sequence[Source]]:
    """Returns a layer's source and header files, with the names that the executable gives them."""
    return (
        tuple(program_source(layer, file) for file in layer.sources),
        tuple(program_source(layer, file) for file in layer.headers),
    )


def tensor_bindings(layer: CustomLayer, op: Op) -> Sequence[KernelArgument]:
    """Returns the arguments of a layer's kernel, with their data.

    Without a description, the arguments are the op's inputs and outputs in order. Each output of the op must be
    bound to an argument.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if an output of the op is not bound to an argument, or an argument is bound to
        a tensor that the op does not have; NOT_FOUND, if data are missing.
    """
    if not layer.kernel.arguments:
        inputs = [TensorArgument(False, i) for i in range(len(op.inputs))]
        return [*inputs, *(TensorArgument(True, i) for i in range(len(op.outputs)))]
    bindings = [
        TensorArgument(False, find_data_input(op, binding.name))
        if isinstance(binding, DataArgument)
        else binding
        for binding in layer.kernel.arguments
    ]
    for place, binding in enumerate(bindings):
        if isinstance(binding, (TensorArgument, ShapeArgument)):
            _check_port(place, binding, op)
    bound = {b.index for b in bindings if isinstance(b, TensorArgument) and b.is_output}
    for index in range(len(op.outputs)):
        if index not in bound:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"no argument of the kernel is bound to output {index} of the op, so nothing would write this "
                "output",
                hint="Bind an argument to each output in the layer's description.",
            )
    return bindings


def constant_shape(tensor: Tensor) -> ConstantArgument:
    """Returns the shape of a tensor of fixed shape as the bytes that a kernel reads."""
    data = struct.pack(f"<{len(tensor.shape)}I", *tensor.shape)
    return ConstantArgument(ElementType.UINT32, data)


def pack_numbers(element_type: ElementType, value: Value) -> bytes:
    """Returns one or several numbers as the bytes that a kernel reads.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if the value is a string, or a number that the type cannot hold.
    """
    values = (value,) if isinstance(value, (bool, int, float, str)) else value
    letter = STRUCT_FORMATS[element_type]
    numbers: list[int | float] = []
    for number in values:
        if isinstance(number, str):
            raise _not_a(element_type, f"the text '{number}'")
        if letter in "fd":
            numbers.append(float(number))
        elif isinstance(number, float) and not number.is_integer():
            raise _not_a(element_type, str(number))
        else:
            numbers.append(int(number))
    try:
        return struct.pack(f"<{len(numbers)}{letter}", *numbers)
    except (struct.error, OverflowError) as error:
        shown = str(numbers[0]) if len(numbers) == 1 else f"one of {len(numbers)} numbers"
        raise _not_a(element_type, shown) from error


def _arguments(
    bindings: Sequence[KernelArgument], op: Op, values: OpValues
) -> tuple[KernelArgument, ...]:
    arguments = []
    for index, binding in enumerate(bindings):
        try:
            arguments.append(_argument(binding, op, values))
        except LiteRtError as error:
            what = f"cannot set argument {index} of the kernel: {error.what}"
            raise LiteRtError(error.status, what, error.where, error.hint) from error
    return tuple(arguments)


def _argument(binding: KernelArgument, op: Op, values: OpValues) -> KernelArgument:
    if isinstance(binding, TensorArgument):  # the other fields are requirements
        return replace(binding, element_type=None, is_strided=False)
    if isinstance(binding, ShapeArgument):
        tensor = None if binding.is_output else op.inputs[binding.index]
        if tensor is not None and tensor.type.layout.is_static:
            return constant_shape(tensor)
    if isinstance(binding, (ScalarArgument, ConstantArgument)):
        numbers = pack_numbers(binding.element_type, values.resolve(binding.source))
        is_scalar = isinstance(binding, ScalarArgument)
        if is_scalar and len(numbers) * 8 != binding.element_type.bits:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                "the argument is a scalar, but has "
                f"{count_text(len(numbers) * 8 // binding.element_type.bits, 'value')}",
            )
        return replace(binding, source=numbers)
    if isinstance(binding, InternalArgument):
        return replace(binding, element_type=_scratch_type(binding, op))
    return binding


def _check_port(place: int, binding: TensorArgument | ShapeArgument, op: Op) -> None:
    tensors = op.outputs if binding.is_output else op.inputs
    if binding.index >= len(tensors) or tensors[binding.index] is None:
        kind = "output" if binding.is_output else "input"
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"argument {place} is bound to {kind} {binding.index}, but the op has {len(tensors)} "
            f"{kind}{'s' if len(tensors) != 1 else ''}",
            hint=f"The op's {kind}s are counted from 0"
            + (
                ", even if a .xml file numbers the outputs after the inputs."
                if binding.is_output
                else "."
            ),
        )


def _scratch_type(binding: InternalArgument, op: Op) -> ElementType:
    """Returns the type in the description, or else the type of the first input."""
    if binding.element_type is not None:
        return binding.element_type
    if not op.inputs or op.inputs[0] is None:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            "the layer's description gives no type for internal memory, and the op has no input 0, whose type "
            "is the default",
            hint="Give the internal memory a type in the description.",
        )
    return op.inputs[0].element_type


def program_source(layer: CustomLayer, file: LayerFile) -> Source:
    """Returns one file of a layer, with the name that the executable gives this file."""
    return Source(layer.asset_name(file), file.path, file.digest)


def _not_a(element_type: ElementType, what: str) -> LiteRtError:
    return LiteRtError(
        Status.INVALID_ARGUMENT,
        f"the value is {what}, which type {element_type.name.lower()} cannot hold",
    )


def find_mentions(layer: CustomLayer, op: Op) -> tuple[str, ...] | None:
    """Returns the result of `layer_mentions` for an op with tensors of dynamic shape; None for other ops."""
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    if all(tensor.type.layout.is_static for tensor in tensors):
        return None
    return layer_mentions(layer)


def layer_mentions(layer: CustomLayer) -> tuple[str, ...] | None:
    """Returns the built-in size defines that a layer's source code mentions; None if they cannot be determined.

    A define counts as mentioned wherever its name occurs, also in comments. Source code that contains `##` could
    form any name, so the result is then None.
    """
    texts = [decode_source(file.data, file.path) for file in (*layer.sources, *layer.headers)]
    texts.append(layer.kernel.build_options)
    if any("##" in text or "\\\n" in text for text in texts):
        return None
    texts += [name for file in layer.sources for name in file.sizes or ()]
    return tuple(sorted({name for text in texts for name in _SIZES.findall(text)}))
