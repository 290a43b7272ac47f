"""Tests that each memory place between two tasks gets memory of its own."""

from __future__ import annotations

from compiler_plugin.report import Report
from litert.core.compiler_options import CompilerOptions
from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from vendor_reference.authoring.compiled_layer import CompiledLayer, LayerOptions
from vendor_reference.authoring.layer_run import separate_memory
from vendor_reference.authoring.subject import OpChoice, given_subject
from vendor_reference.executable.byte_code import read_executable, write_executable
from vendor_reference.executable.executable import (
    Argument,
    ArgumentKind,
    Executable,
    Function,
    KernelTask,
    Program,
)

INPUT = Argument(ArgumentKind.INPUT, 0)
OUTPUT = Argument(ArgumentKind.OUTPUT, 0)


def place(offset: int, size: int, kind: ArgumentKind = ArgumentKind.DDR) -> Argument:
    return Argument(kind, offset=offset, size_bytes=size)


def compiled(*tasks: list[Argument]) -> CompiledLayer:
    kind = RankedTensorType.of(ElementType.FLOAT32, (4,))
    kernel_tasks = [KernelTask("op", 0, "k", arguments, [4]) for arguments in tasks]
    function = Function("f", [kind], [kind], kernel_tasks, 256, 256)
    executable = Executable("EMU8", [function], [Program("__kernel void k() {}", ())], [])
    subject = given_subject(OpChoice(inputs="4xf32", outputs="4xf32"), "op")
    module = write_executable(executable)
    return CompiledLayer(
        subject,
        LayerOptions("k.cl", CompilerOptions()),
        Report("apply", ""),
        module,
        executable,
        function,
        [],
    )


def test_equal_places_stay_one_and_others_are_apart() -> None:
    separated, _ = separate_memory(
        compiled(
            [INPUT, place(0, 16)],
            [place(0, 16), place(64, 20), place(0, 16, ArgumentKind.CMX)],
            [place(64, 20), OUTPUT],
        )
    )
    (function,) = read_executable(separated.byte_code.view).functions
    used = [[(a.kind, a.index) for a in task.arguments] for task in function.tasks]
    out = ArgumentKind.OUTPUT
    assert used == [
        [(ArgumentKind.INPUT, 0), (out, 1)],
        [(out, 1), (out, 2), (out, 3)],
        [(out, 2), (out, 0)],
    ]
    assert [t.size_bytes for t in function.outputs] == [16, 16, 20, 16]
    assert (function.ddr_size, function.cmx_size) == (0, 0)


def test_a_layer_without_places_stays_as_it_is() -> None:
    layer = compiled([INPUT, OUTPUT])
    assert separate_memory(layer) == (layer, [])
    assert isinstance(layer.byte_code, Blob)
