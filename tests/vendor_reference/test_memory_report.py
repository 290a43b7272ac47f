"""Tests the report's notes about memory."""

from __future__ import annotations

from litert.model.builder import ModelBuilder
from vendor_reference.compiler.job import Job
from vendor_reference.compiler.lowering import lower_partitions
from vendor_reference.custom_layers.asset_reader import read_layer
from vendor_reference.soc import EMU4, get_soc_model

KERNEL = b"__kernel void Op(__global float* x, __global float* y) { y[get_global_id(0)] = 1; }"


def _notes(soc_model: str, sizes: list[int]) -> list[str]:
    """Compiles a chain of ops whose results have these sizes; returns the notes about memory."""
    b = ModelBuilder()
    x = b.input("x", "float32", (4,))
    for index, size in enumerate(sizes):
        x = b.custom("Op", [x], [(f"t{index}", "float32", (size,))])
    b.output(x)
    layers = {"Op": read_layer("Op", "Op.cl", memoryview(KERNEL))}
    lowered = lower_partitions(Job(get_soc_model(soc_model), layers), [b.build().subgraphs[0]])
    return [note for note in lowered.notes if note.startswith("memory")]


def test_the_report_compares_each_arena_with_the_least_possible() -> None:
    assert _notes("EMU4", [256, 512, 256, 4]) == [
        "memory: Partition_0 uses 3,072 of 1,048,576 bytes of CMX for the tensors between its tasks; "
        "at most 3,072 of these bytes are in use at the same time."
    ]


def test_what_the_scratchpad_has_no_room_for_is_in_ddr() -> None:
    assert _notes("EMU4", [256, EMU4.cmx_size, 4]) == [
        "memory: Partition_0 uses 4,194,304 of 1,073,741,824 bytes of DDR for the tensors between its tasks; "
        "at most 4,194,304 of these bytes are in use at the same time.",
        "memory: Partition_0 uses 1,024 of 1,048,576 bytes of CMX for the tensors between its tasks; "
        "at most 1,024 of these bytes are in use at the same time.",
    ]


def test_nothing_is_said_where_nothing_lives_between_tasks() -> None:
    assert _notes("EMU8", [4]) == []
