"""Tests lowering: partitions become functions of tasks with planned memory; programs and constants are shared."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.quantization import Quantization
from litert.core.status import Status
from litert.model.builder import ModelBuilder
from litert.model.graph import Subgraph, Tensor
from tests.vendor_reference.layers import custom_layer
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.lowering import lower_partitions
from vendor_reference.custom_layers.custom_layer import CustomLayer, Define, LayerFile
from vendor_reference.custom_layers.kernel_spec import (
    ConstantArgument,
    InternalArgument,
    KernelArgument,
    LocalArgument,
    ScalarArgument,
    TensorArgument,
)
from vendor_reference.custom_layers.value_sources import (
    FlexOption,
    Literal,
    QuantizationOf,
    StructField,
    ValueSource,
)
from vendor_reference.executable.byte_code import read_executable, write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Dequantization,
    Executable,
    Source,
)
from vendor_reference.soc import EMU4, EMU8, SocModel

CL = LayerFile("k.cl", b"__kernel void k() {}", is_asset=True)
X, Y = TensorArgument(False, 0), TensorArgument(True, 0)
F32, I32 = ElementType.FLOAT32, ElementType.INT32


def layer(name: str = "Mine", **fields: object) -> CustomLayer:
    return custom_layer(name, "k.cl", [CL], **fields)


def one_op(
    shape: Sequence[int] = (4,), options: dict[str, object] | bytes | None = None
) -> Subgraph:
    b = ModelBuilder()
    x = b.input("x", "float32", shape)
    b.output(b.custom("Mine", [x], [("y", "float32", shape)], options=options))  # type: ignore[arg-type]
    return b.build().subgraphs[0]


def lower(partitions: Sequence[Subgraph], *layers: CustomLayer, soc: SocModel = EMU8) -> Executable:
    return lower_partitions(
        Job(soc, {layer.op_name: layer for layer in layers}), partitions
    ).executable


def test_inputs_then_outputs_are_the_arguments() -> None:
    b = ModelBuilder()
    x0, x1 = b.input("x0", "float32", (2, 3)), b.input("x1", "int8", (2, 3))
    b.output(*b.custom("Mine", [x0, x1], [("y0", "float32", (2, 3)), ("y1", "int32", (5,))]))
    executable = lower(b.build().subgraphs, layer())
    (function,) = executable.functions
    (task,) = function.kernel_tasks
    assert [(a.kind, a.index) for a in task.arguments] == [
        (ArgumentKind.INPUT, 0), (ArgumentKind.INPUT, 1), (ArgumentKind.OUTPUT, 0), (ArgumentKind.OUTPUT, 1),
    ]  # fmt: skip
    assert task.global_size == [6] and task.local_size is None and function.ddr_size == 0
    assert [str(t) for t in function.inputs] == ["tensor<2x3xf32>", "tensor<2x3xi8>"]
    (program,) = executable.programs
    assert program.sources == (Source("Mine", "k.cl", hashlib.sha256(CL.data).hexdigest()),)
    assert (
        "#define NUM_INPUTS 2\n" in program.prelude
        and "#define INPUT1_TYPE char\n" in program.prelude
    )


def test_constants_are_dequantized_at_load_and_stored_once() -> None:
    def partition(weights: np.ndarray[tuple[int, ...], np.dtype[np.float16]]) -> Subgraph:
        b = ModelBuilder()
        x = b.input("x", "float32", (4,))
        w = b.op("DEQUANTIZE", [b.constant("w", weights)], [("wf", "float32", (4,))])
        stored = b.constant("q", np.arange(4, dtype=np.int8), quantization=Quantization([0.5], [2]))
        q = b.op("DEQUANTIZE", [stored], [("qf", "float32", (4,))])
        y = b.custom("Mine", [x, w, q, w], [("y", "float32", (4,))])
        b.output(y)
        return b.build().subgraphs[0]

    executable = lower([partition(np.ones(4, np.float16))], layer())
    (task,) = executable.functions[0].kernel_tasks
    assert [a.index for a in task.arguments if a.kind is ArgumentKind.CONSTANT] == [0, 1, 0]
    half, quantized = executable.constants
    assert half.tensor_type.element_type is ElementType.FLOAT16
    assert half.dequantization == Dequantization()
    assert quantized.dequantization == Dequantization([0.5], [2], 0)
    assert bytes(quantized.data) == b"\0\1\2\3"


def test_functions_share_programs_and_constants() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    w = b.constant("w", np.ones(4, np.float32))
    b.output(b.custom("Mine", [x, w], [("y", "float32", (4,))]))
    model = b.build()
    executable = lower([model.subgraphs[0]] * 3, layer())
    assert [f.name for f in executable.functions] == ["Partition_0", "Partition_1", "Partition_2"]
    assert len(executable.programs) == 1 and len(executable.constants) == 1


def test_ops_with_other_shapes_or_options_have_programs_of_their_own() -> None:
    partitions = [one_op((4,)), one_op((5,)), one_op((4,), {"alpha": 0.5}), one_op((4,))]
    executable = lower(partitions, layer(defines_options=True))
    assert [f.kernel_tasks[0].program for f in executable.functions] == [0, 1, 2, 0]


@st.composite
def chains(draw: st.DrawFn) -> Subgraph:
    """Draws a partition of ops that read any earlier values."""
    b = ModelBuilder()
    values: list[Tensor] = [b.input("x", "float32", (draw(st.integers(1, 40)),))]
    for index in range(draw(st.integers(1, 12))):
        inputs = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        shapes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=2))
        outputs = [(f"t{index}_{i}", "float32", (size,)) for i, size in enumerate(shapes)]
        made = b.custom("Mine", inputs, outputs)
        values += made if isinstance(made, tuple) else (made,)
    count = draw(st.integers(1, 3))
    b.output(
        *dict.fromkeys(draw(st.lists(st.sampled_from(values[1:]), min_size=count, max_size=5)))
    )
    return b.build().subgraphs[0]


@given(chains())
def test_a_task_reads_what_its_producer_wrote(partition: Subgraph) -> None:
    (function,) = lower([partition], layer()).functions
    memory: dict[tuple[ArgumentKind, int], Tensor] = {}  # last tensor written to each byte
    sizes = {ArgumentKind.DDR: function.ddr_size, ArgumentKind.CMX: function.cmx_size}
    outputs: dict[int, Tensor] = {}
    for op, task in zip(partition.ops, function.tasks, strict=True):
        reads = zip(op.inputs, task.arguments[: len(op.inputs)], strict=True)
        writes = zip(op.outputs, task.arguments[len(op.inputs) :], strict=True)
        for tensor, argument in reads:
            assert tensor is not None
            if argument.kind is ArgumentKind.INPUT:
                assert partition.inputs[argument.index] is tensor
            elif argument.kind is ArgumentKind.OUTPUT:
                assert outputs[argument.index] is tensor
            else:
                assert all(memory[byte] is tensor for byte in _bytes(argument))
        for tensor, argument in writes:
            if argument.kind is ArgumentKind.OUTPUT:
                assert partition.outputs[argument.index] is tensor
                outputs[argument.index] = tensor
            else:
                assert argument.offset + argument.size_bytes <= sizes[argument.kind]
                memory.update(dict.fromkeys(_bytes(argument), tensor))
    assert [outputs[i] for i in range(len(partition.outputs))] == list(partition.outputs)


def _bytes(argument: Argument) -> list[tuple[ArgumentKind, int]]:
    assert argument.offset % 64 == 0
    end = argument.offset + argument.size_bytes
    return [(argument.kind, byte) for byte in range(argument.offset, end)]


def test_a_constant_that_another_partition_reads_is_copied_out() -> None:
    b = ModelBuilder()
    w = b.op("DEQUANTIZE", [b.constant("w", np.ones(4, np.float16))], [("wf", "float32", (4,))])
    y = b.custom("Mine", [w], [("y", "float32", (4,))])
    b.output(y, w)
    (function,) = lower(b.build().subgraphs, layer()).functions
    copy, mine = function.tasks
    assert copy.op_name == "Copy"
    assert [a.kind for a in copy.arguments[:2]] == [ArgumentKind.CONSTANT, ArgumentKind.OUTPUT]
    assert mine.arguments[0].kind is ArgumentKind.CONSTANT


def bound(*bindings: KernelArgument, options: dict[str, object] | bytes | None = None) -> Argument:
    """Lowers an op and returns the argument made from the first binding."""
    executable = lower([one_op((4,), options)], layer(arguments=[*bindings, X, Y]))
    return executable.functions[0].kernel_tasks[0].arguments[0]


@pytest.mark.parametrize(
    ("element_type", "source", "options", "scalar"),
    [
        (F32, Literal(0.5), None, struct.pack("f", 0.5)),
        (F32, Literal(3), None, struct.pack("f", 3)),
        (I32, FlexOption("n"), {"n": 7}, struct.pack("i", 7)),
        (I32, FlexOption("n", 9), {}, struct.pack("i", 9)),
        (I32, FlexOption("n", 9), None, struct.pack("i", 9)),
        (ElementType.UINT8, FlexOption("on"), {"on": True}, b"\1"),
        (I32, StructField(I32, 4), struct.pack("3i", 1, 2, 3), struct.pack("i", 2)),
        (F32, StructField(ElementType.FLOAT16, 0), struct.pack("e", 1.5), struct.pack("f", 1.5)),
        (ElementType.INT64, StructField(ElementType.BOOL, 0), b"\1", struct.pack("q", 1)),
    ],
)
def test_scalars_are_passed_by_value(
    element_type: ElementType,
    source: ValueSource,
    options: dict[str, object] | bytes | None,
    scalar: bytes,
) -> None:
    argument = bound(ScalarArgument(element_type, source), options=options)
    assert argument == Argument(ArgumentKind.SCALAR, scalar=scalar)


@pytest.mark.parametrize(
    ("binding", "options", "says"),
    [
        (ScalarArgument(I32, Literal(0.5)), None, "the value is 0.5, which type int32 cannot hold"),
        (ScalarArgument(I32, Literal(2**31)), None, "the value is 2147483648, which type int32 cannot hold"),
        (ScalarArgument(I32, Literal("x")), None, "the value is the text 'x', which type int32 cannot hold"),
        (ScalarArgument(I32, Literal((1, 2))), None, "the argument is a scalar, but has 2 values"),
        (ScalarArgument(I32, FlexOption("m")), {"n": 1, "mm": 2}, "only 'mm', 'n'. Did you mean"),
        (ScalarArgument(I32, FlexOption("n")), {"n": {"a": 1}}, "which is not a text, a number or a list of them"),
        (ScalarArgument(I32, FlexOption("n")), b"\1\0\0\0\2\0\0\0", "so they have no names. If the options are"),
        (
            ScalarArgument(I32, StructField(I32, 6)), b"\0" * 8,
            "begins at byte 6 and has 4 bytes, but the options have only 8 bytes",
        ),
        (ScalarArgument(F32, QuantizationOf("scale", False, 0)), None, "scale of input 0, which is not quantized"),
        (ScalarArgument(F32, QuantizationOf("scale", False, 3)), None, "of input 3, which the op does not have"),
        (TensorArgument(False, 1), None, " is bound to input 1, but the op has 1 input."),
        (TensorArgument(True, 1), None, " is bound to output 1, but the op has 1 output."),
        (InternalArgument(F32, "X-2"), None, "formula 'X-2' has the value -1 for B=4, F=1, Y=1, X=1"),
    ],
)  # fmt: skip
def test_an_asset_that_does_not_fit_its_op_is_refused(
    binding: KernelArgument, options: dict[str, object] | bytes | None, says: str
) -> None:
    with pytest.raises(LiteRtError) as error:
        bound(binding, options=options)
    assert error.value.status is Status.INVALID_ARGUMENT
    assert says in f"{error.value.what}. {error.value.hint}"
    assert error.value.where == "k.cl, op 'Mine'"


def test_quantization_of_tensors_can_be_bound() -> None:
    b = ModelBuilder()
    quantization = Quantization([0.5, 0.25], [3, 4], 0)
    x = b.input("x", "int8", (2,), quantization=quantization)
    b.output(b.custom("Mine", [x], [("y", "float32", (2,))]))
    mine = layer(
        arguments=[ConstantArgument(F32, QuantizationOf("scale", False, 0)), X, Y],
        defines=[Define("ZERO", QuantizationOf("zero_point", False, 0), "int[]")],
    )
    executable = lower(b.build().subgraphs, mine)
    (constant,) = executable.constants
    assert np.frombuffer(bytes(constant.data), np.float32).tolist() == [0.5, 0.25]
    assert "#define ZERO (int[]) {3,4}\n" in executable.programs[0].prelude


def test_constants_of_a_description_are_embedded_once() -> None:
    table = ConstantArgument(ElementType.INT16, Literal((1, -2, 3)))
    executable = lower([one_op(), one_op()], layer(arguments=[table, table, X, Y]))
    (constant,) = executable.constants
    assert bytes(constant.data) == struct.pack("3h", 1, -2, 3)
    assert str(constant.tensor_type) == "tensor<3xi16>"


def test_local_and_internal_memory_have_sizes_in_elements() -> None:
    local = bound(LocalArgument(F32, "B*2"))
    assert local == Argument(ArgumentKind.LOCAL, size_bytes=32)
    internal = bound(InternalArgument(ElementType.INT16, "B"))
    assert internal == Argument(ArgumentKind.CMX, size_bytes=8)


def test_more_local_memory_than_cmx_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        bound(LocalArgument(F32, "400000"), LocalArgument(F32, "400000"))
    assert error.value.status is Status.UNSUPPORTED
    assert (
        "the kernel needs 3200000 bytes of __local memory, but EMU8 has only 2097152 bytes for it (CMX)"
        in error.value.what
    )


def test_more_between_tasks_than_ddr_is_refused() -> None:
    b = ModelBuilder()
    y = b.custom("Mine", [b.input("x", "float32", (4,))], [("y", "float32", (1 << 28, 2))])
    b.output(b.custom("Mine", [y], [("z", "float32", (4,))]))
    with pytest.raises(LiteRtError) as error:
        lower(b.build().subgraphs, layer(), soc=EMU4)
    assert error.value.status is Status.UNSUPPORTED
    assert error.value.what == (
        "the tensors between the tasks of function 'Partition_0' need 2147483648 bytes of DDR memory, "
        "but EMU4 has only 1073741824 bytes"
    )


def test_work_sizes_are_those_of_the_tensor_named() -> None:
    b = ModelBuilder()
    x = b.input("x", "float32", (1, 8, 16, 3))  # N, H, W, C
    b.output(b.custom("Mine", [x], [("y", "float32", (1, 1, 1, 1))]))
    mine = layer(global_size=("X", "Y*F"), local_size=("4", "1"), sizes_of=X)
    (task,) = lower(b.build().subgraphs, mine).functions[0].kernel_tasks
    assert (list(task.global_size), list(task.local_size or ())) == ([16, 24], [4, 1])


def test_a_local_size_that_does_not_divide_is_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        lower([one_op((4,))], layer(global_size=("B",), local_size=("3",)))
    assert "global size [4] is not a multiple of local size [3]" in error.value.what
    assert "((X+15)/16)*16" in error.value.hint


def test_work_sizes_that_leave_the_output_unwritten_are_refused() -> None:
    with pytest.raises(LiteRtError) as error:
        lower([one_op((4, 2))], layer(global_size=("F", "X-1")))
    assert "the global size is [2, 0], so that no work item" in error.value.what
    assert error.value.hint == (
        "Correct the formulas of the work sizes in the layer's description. In them, B, F, Y, X of output 0 "
        "are 4, 2, 1, 1."
    )


def test_an_output_that_no_argument_writes_is_refused() -> None:
    with pytest.raises(
        LiteRtError, match="no argument of the kernel is bound to output 0 of the op"
    ):
        lower([one_op()], layer(arguments=[X]))


def test_a_field_past_the_options_is_named_by_type_and_place() -> None:
    defines = [Define("N", StructField(F32, 8, None))]
    says = (
        r"cannot set define 'N': the field 'float32' begins at byte 8 and has 4 bytes, "
        "but the options have only 8"
    )
    with pytest.raises(LiteRtError, match=says):
        lower([one_op(options=bytes(8))], layer(defines=defines))


def test_a_define_without_a_value_is_refused_by_name() -> None:
    with pytest.raises(
        LiteRtError,
        match="cannot set define 'N': the layer uses option 'n', but the op has no options",
    ):
        lower([one_op(options={})], layer(defines=[Define("N", FlexOption("n"))]))


def test_empty_tensors_have_no_work_items() -> None:
    (task,) = lower([one_op((0, 4))], layer()).functions[0].kernel_tasks
    assert task.global_size == [0]


def test_what_is_lowered_can_be_written_and_read() -> None:
    local = LocalArgument(F32, "B-4")
    executable = lower([one_op((4,))], layer(arguments=[local, X, Y]))
    functions = [
        replace(f, tasks=[replace(t, entry="k") for t in f.kernel_tasks])
        for f in executable.functions
    ]
    read_executable(bytes(write_executable(replace(executable, functions=functions))))
