"""Lists everything that a kernel gets for one op: arguments, defines, work sizes and the whole source text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.sizes import Size
from litert.model.graph import Op
from litert.model.quantized_tensor import describe_quantization
from vendor_reference.authoring.compiled_layer import CompiledLayer, load_layer
from vendor_reference.compiler.built_kernels import find_built, program_key
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    DataArgument,
    InternalArgument,
    KernelArgument,
    LocalArgument,
    ScalarArgument,
    ShapeArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import OpValues
from vendor_reference.drivers.device_choice import choose_device
from vendor_reference.executable.executable import HOLE, Argument, KernelTask, Program
from vendor_reference.executable.kernel_signature import KernelSignature
from vendor_reference.executable.source_text import fill_program, hole_values

_SHAPE = re.compile(r"\bs([0-9]+)\[")
_DEFINE = re.compile(r"^#define ((\w+)\S*)(?: (.*))?$", re.M)
_OWN = "// Custom Layer User Defines"


@dataclass(frozen=True, slots=True)
class ArgumentLine:
    """One argument of a kernel.

    Attributes:
      declared: Declaration of the argument in the source code, such as `__global float* x`; "" if the driver does
        not report declarations.
      bound: Value that is bound to the argument, such as `input 0: tensor<4xf32>, BFYX`.
    """

    declared: str
    bound: str


@dataclass(frozen=True, slots=True)
class KernelListing:
    """A kernel with its arguments and work sizes for one op.

    Attributes:
      entry: Name of the kernel.
      arguments: Arguments in the order in which the kernel declares them.
      global_size: Number of work items in each dimension: numbers, or formulas with sizes that are known only at
        run time.
      local_size: Number of work items of a work group in each dimension, as numbers or formulas; empty if the
        driver chooses.
      defines: Names and values of the layer's own defines, without the built-in defines.
      text: Whole text that the OpenCL compiler gets.
      build_options: Build options for the OpenCL compiler.
    """

    entry: str
    arguments: Sequence[ArgumentLine]
    global_size: Sequence[int | str]
    local_size: Sequence[int | str]
    defines: Sequence[tuple[str, str]]
    text: str
    build_options: str

    def lines(self) -> Iterator[str]:
        """Yields the listing as lines of text for people."""
        groups = (
            f"work groups of {_sizes(self.local_size)}"
            if self.local_size
            else "work groups that the driver chooses"
        )
        yield f"kernel {self.entry}: {_sizes(self.global_size)} work items, {groups}"
        width = max((len(a.declared) for a in self.arguments), default=0)
        for index, argument in enumerate(self.arguments):
            yield f"  {index}  {argument.declared:{width}}  <-  {argument.bound}"
        if self.defines:
            yield "macros that the layer defines:"
            yield from (f"  {name} = {value}" for name, value in self.defines)
        if self.build_options:
            yield f"build options: {self.build_options}"


def list_kernel(compiled: CompiledLayer) -> KernelListing:
    """Lists everything that the kernel of a compiled layer gets; raises the errors of `find_kernel`."""
    task, program = compiled.find_kernel()
    # The build for the check has the largest shapes in its text, if the text contains shapes.
    shapes = compiled.function.shapes
    sample = fill_program(program, hole_values(program, lambda index: shapes[index].bound))
    declared = find_signature(sample, task.entry)
    builtin, _, own = program.prelude.partition(_OWN)
    arguments = [
        ArgumentLine(str(declared.arguments[i]) if declared else "", text)
        for i, text in enumerate(_describe_arguments(compiled, task, builtin))
    ]
    try:
        text = compiled.text(program).text.replace(HOLE, "?")
    except LiteRtError as error:  # The source of a binary layer may have been left out.
        text = str(error)
    return KernelListing(
        task.entry,
        arguments,
        _shown_sizes(compiled, task.global_size),
        _shown_sizes(compiled, task.local_size or ()),
        [(found[1], (found[3] or "").strip()) for found in _DEFINE.finditer(own)],
        text,
        program.build_options,
    )


def _shown_sizes(compiled: CompiledLayer, sizes: Sequence[Size]) -> list[int | str]:
    """Returns numbers, and formulas in which shapes have their tensors' names: `(x[0]*4)`."""
    shapes = compiled.function.shapes
    return [
        s if isinstance(s, int) else _SHAPE.sub(lambda m: f"{shapes[int(m[1])].name}[", str(s))
        for s in sizes
    ]


def find_signature(program: Program, entry: str) -> KernelSignature | None:
    """Returns a kernel's declared signature from the cached build of its program; None if it is not cached."""
    built = find_built(program_key(program, choose_device().fingerprint))
    return built.kernels.get(entry) if built else None


def _describe_arguments(compiled: CompiledLayer, task: KernelTask, prelude: str) -> Sequence[str]:
    op = compiled.subject.op
    layer, _ = load_layer(compiled.options, op.name)
    bindings = list[KernelArgument](layer.kernel.arguments)
    if not bindings:
        bindings += (TensorArgument(False, index) for index in range(len(op.inputs)))
        bindings += (TensorArgument(True, index) for index in range(len(op.outputs)))
    defines = {found[2]: (found[3] or "").strip() for found in _DEFINE.finditer(prelude)}
    return [
        _describe(binding, argument, op, defines)
        for binding, argument in zip(bindings, task.arguments, strict=True)
    ]


def _describe(
    binding: KernelArgument, argument: Argument, op: Op, defines: Mapping[str, str]
) -> str:
    if isinstance(binding, TensorArgument):
        return _describe_tensor(binding, op, defines)
    if isinstance(binding, DataArgument):
        return f"the constant '{binding.name}'"
    if isinstance(binding, ShapeArgument):
        return f"the shape of {'output' if binding.is_output else 'input'} {binding.index}"
    kind = (
        binding.element_type.name.lower() if binding.element_type else "the element type of input 0"
    )
    if isinstance(binding, (ScalarArgument, ConstantArgument)):
        value = OpValues(op).resolve(binding.source)
        noun = "scalar" if isinstance(binding, ScalarArgument) else "constant"
        return f"{noun} of {kind}: {value!s:.60}"
    place = "local memory" if isinstance(binding, LocalArgument) else "scratch memory"
    assert isinstance(binding, (LocalArgument, InternalArgument))
    return f"{place} for {kind}: {argument.size_bytes} bytes"


def _describe_tensor(binding: TensorArgument, op: Op, defines: Mapping[str, str]) -> str:
    """Describes the op's tensor, and the form in which the kernel sees it."""
    tensor = (op.outputs if binding.is_output else op.inputs)[binding.index]
    name = f"{'OUTPUT' if binding.is_output else 'INPUT'}{binding.index}"
    numbers = re.findall(r"-?\d+", defines.get(f"{name}_DIMS", "").partition("{")[2])
    dims = "x".join(numbers) if len(numbers) == 4 else "with sizes that are known only at run time,"
    seen = f"B,F,Y,X {dims} of {defines.get(f'{name}_TYPE', '?')}"
    format_ = f"{name}_FORMAT_"
    order = next((n.removeprefix(format_) for n in defines if n.startswith(format_)), "")
    origin = ", constant" if tensor is not None and tensor.is_constant else ""
    type_text = tensor.type if tensor is not None else "left out"
    quantized = describe_quantization(tensor.quantization if tensor is not None else None)
    if quantized:
        origin += f", {quantized}"
    return f"{binding}: {type_text}{origin}; {seen}, in memory {order}"


def _sizes(sizes: Sequence[int | str]) -> str:
    return " x ".join(str(size) for size in sizes)
