"""Tests that damaged byte code is refused or stays within its memory, for known and random damage."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from litert.core.element_type import ElementType
from litert.core.errors import LiteRtError
from litert.core.sizes import Dimension, Size
from litert.core.status import Status
from tests.vendor_reference.damage_trial import try_in_child
from tests.vendor_reference.damaged_byte_code import compile_module, kernel_model
from tests.vendor_reference.executables import (
    assets,
    byte_code,
    cmx,
    const,
    constant,
    ddr,
    doubling,
    floats,
    in_,
    out,
    task,
)
from vendor_reference.compiler.emission.launches import assemble_command
from vendor_reference.compiler.library.elementwise import Formula, KernelOperand
from vendor_reference.compiler.library.views import View
from vendor_reference.device.module import Module
from vendor_reference.device.size_program import compile_sizes
from vendor_reference.executable.byte_code import read_executable, write_executable
from vendor_reference.executable.executable import (
    Argument,
    Constant,
    Executable,
    Function,
    KernelTask,
    LayerCommand,
    LayerTask,
    ShapeKind,
    ShapeValue,
)
from vendor_reference.firmware.instructions import instruction_set

MODULES = int(os.environ.get("LITERT_NPU_DAMAGED_MODULES", "4"))

TWO_LOCALS = """
__kernel void MyOp(__global const float* x, __global float* y) {
  __local float kept[COUNT];
  kept[get_local_id(0)] = x[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  y[get_global_id(0)] = kept[get_local_id(0)];
}
"""


def _read(made: Executable) -> Executable:
    return read_executable(write_executable(made).view)


def _refused(made: Executable) -> LiteRtError:
    with pytest.raises(LiteRtError) as refused:
        _read(made)
    assert refused.value.status is Status.SERIALIZATION
    return refused.value


def _told(size: Size = 4, **limits: Any) -> Executable:
    """Returns a function with a kernel between an input and CMX, and the limits the kernel was compiled for."""
    one = replace(task("MyOp", [in_(), cmx(0, 16)], [size]), **limits)
    shapes = [ShapeValue("x", ShapeKind.INPUT, (-1,), (4,), 0)]
    function = Function("f", [floats(4)], [floats(4)], [one], 64, 64, shapes)
    return replace(doubling(), functions=[function])


def _changed(made: Executable, **fields: Any) -> Executable:
    (function,) = made.functions
    (one,) = function.tasks
    tasks = [replace(one, **fields)]
    return replace(made, functions=[replace(function, tasks=tasks)])


@pytest.mark.parametrize("argument", [cmx(0, 0), ddr(0, 0)], ids=["CMX", "DDR"])
def test_memory_of_no_bytes_is_refused(argument: Argument) -> None:
    made = _changed(_told(), arguments=[in_(), argument])
    assert f"the size of {argument.kind.name}" in _refused(made).what


def test_memory_smaller_than_a_kernel_was_compiled_for_is_refused() -> None:
    good = _told(least_bytes=[16, 16])
    _read(good)
    made = _changed(good, arguments=[in_(), cmx(0, 4)])
    assert (
        "the argument has 4 bytes, but the kernel was compiled for at least 16"
        in _refused(made).what
    )


@pytest.mark.parametrize("size", [4, Dimension(0, 0)], ids=["fixed", "dynamic"])
def test_more_work_items_than_a_kernel_was_compiled_for_are_refused(size: Size) -> None:
    _read(_told(size, most_items=4))
    made = _changed(_told(size, most_items=4), global_size=[size * (1 << 20)])
    assert (
        "the launch has 4194304 work items, but the kernel was compiled for at most 4"
        in _refused(made).what
    )


@pytest.mark.parametrize("seed", range(3))
def test_compiled_kernels_have_their_limits(tmp_path: Path, seed: int) -> None:
    module = compile_module(tmp_path, kernel_model(Random(seed)), has_kernels=True)
    assert module is not None
    functions = read_executable(module).functions
    tasks = [t for f in functions for t in f.tasks if isinstance(t, KernelTask)]
    assert tasks
    for one in tasks:
        assert len(one.least_bytes) == len(one.arguments)
        assert one.most_items == 48 * 5


def test_local_memory_that_a_kernel_declares_counts(device: Any) -> None:
    text = TWO_LOCALS.replace("COUNT", str(1 << 26))
    made = doubling(text=text)
    module = Module(device, byte_code(made).view, assets(MyOp=text))
    with pytest.raises(LiteRtError) as refused:
        module.load(module.find_function("f"))
    assert refused.value.status is Status.MEMORY_ALLOCATION_FAILURE
    assert "bytes of local memory" in refused.value.what


def _layer(
    arguments: Sequence[Argument], command: LayerCommand, *constants: Constant
) -> Executable:
    one = LayerTask("OP", arguments, [command], "t")
    function = Function("f", [floats(8)], [floats(8)], [one], 64)
    instructions = [instruction_set()[command.instruction]]
    return Executable("EMU8", [function], [], constants, instructions)


def _square() -> Executable:
    """Returns `a * a` for eight floats, as the library compiles it."""
    operand = KernelOperand(View.dense(ElementType.FLOAT32, (8,)))
    formula = Formula("a * a", [operand], operand)
    (command,) = formula.kernel("OP").commands
    program = constant(np.frombuffer(formula.program(), np.uint32))
    return _layer([in_(), out(), const(0)], assemble_command(command), program)


def _word(made: Executable, field: str, value: int, index: int = 0) -> Executable:
    """Returns the executable with one changed word in a field of its command."""
    (function,) = made.functions
    (one,) = function.tasks
    assert isinstance(one, LayerTask)
    (command,) = one.commands
    at = index
    for known in instruction_set()[command.instruction].fields:
        if known.name == field:
            break
        at += known.count
    words = [*command.words]
    words[at] = value
    return _changed(made, commands=[LayerCommand(command.instruction, words)])


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("sizes", 9, "accesses memory outside its operand 'result', which has 32 bytes"),
        ("sizes", 2**32 - 1, "accesses memory outside its operand 'result', which has 32 bytes"),
        ("offsets", 1, "accesses memory outside its operand 'result', which has 32 bytes"),
        ("strides", 2, "accesses memory outside its operand 'result', which has 32 bytes"),
        ("num_loops", 9, "has fields with invalid values"),
        ("num_loops", 0, "has fields with invalid values"),
        ("a", 0, "accesses memory outside its operand 'a', which has 0 bytes"),
    ],
)
def test_a_command_that_leaves_its_memory_is_refused_at_load(
    device: Any, field: str, value: int, wrong: str
) -> None:
    _load(device, _square())
    with pytest.raises(LiteRtError) as refused:
        _load(device, _word(_square(), field, value))
    assert refused.value.status is Status.SERIALIZATION
    assert refused.value.what == f"instruction 'Elementwise' in the byte code {wrong}"
    assert refused.value.where == "op OP that writes tensor 't'"


def _load(device: Any, made: Executable) -> None:
    module = Module(device, byte_code(made).view, {})
    module.load(module.find_function("f"))


@pytest.mark.parametrize("byte", range(16, 16 + 3 * 16))
def test_a_program_that_leaves_its_registers_is_refused(device: Any, byte: int) -> None:
    """Sets each byte of the program's steps to 255; constants and unused registers may have any value."""
    made = _square()
    data = bytearray(made.constants[0].data.view)
    data[byte] = 255
    made = replace(made, constants=[constant(np.frombuffer(data, np.uint32))])
    if byte % 16 >= 8:  # the bits of a constant
        _load(device, made)
        return
    with pytest.raises(LiteRtError, match="outside its operand 'program'"):
        _load(device, made)


@pytest.mark.parametrize(
    ("field", "number", "wrong"),
    [
        ("result", 1, "the result of a command cannot be memory of kind input"),
        ("program", 1, "the program of a command must be a constant"),
    ],
)
def test_a_place_that_a_command_must_not_have_is_refused(
    field: str, number: int, wrong: str
) -> None:
    assert wrong in _refused(_word(_square(), field, number)).what


def test_shapes_of_shapes_do_not_double_their_digits() -> None:
    """Checks sizes of which each is the square of the one before; the last would be 2 ** (2 ** 60)."""
    shapes = {i: [Dimension(i - 1, 0) * Dimension(i - 1, 0)] for i in range(1, 61)}
    program = compile_sizes([Dimension(60, 0)], shapes)
    with pytest.raises(ValueError):
        program(lambda _: [2])
    assert program(lambda _: [1]) == [1]


def test_sizes_that_are_too_deep_for_the_stack_are_refused() -> None:
    size: Size = Dimension(0, 0)
    for _ in range(5000):
        size = size + 1
    with pytest.raises(LiteRtError, match="nested too deeply for the stack of this thread"):
        compile_sizes([size])


def test_a_second_shape_of_an_input_is_refused() -> None:
    made = _told()
    (function,) = made.functions
    shapes = [*function.shapes, *function.shapes]
    made = replace(made, functions=[replace(function, shapes=shapes)])
    assert "input 0 has two shapes" in _refused(made).what


@pytest.mark.each_driver
@pytest.mark.parametrize("seed", range(2))
def test_damaged_byte_code_is_refused_or_runs_within_its_memory(tmp_path: Path, seed: int) -> None:
    target = "tests.vendor_reference.damaged_byte_code:run"
    try_in_child(target, tmp_path, 60 * MODULES + 60, seed=seed, modules=MODULES, count=30)
