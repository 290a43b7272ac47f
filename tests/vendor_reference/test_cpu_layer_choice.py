"""Tests which implementation and configuration an op gets; like the compiler, it asks in a child process."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from litert.core.element_type import ElementType
from litert.core.errors import ChildStartError, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.child import call_in_child
from tests.vendor_reference.cpu_layers import library, prelu
from vendor_reference.cpu_layer import asking
from vendor_reference.cpu_layer.choice import Choice, choose
from vendor_reference.cpu_layer.library import CpuLayerLibrary
from vendor_reference.cpu_layer.library_worker import ask
from vendor_reference.executable.cpu_op import CPU_OP, CpuOp, CpuOperand, MemoryLayout

F16, F32, I8 = ElementType.FLOAT16, ElementType.FLOAT32, ElementType.INT8
NCHW8C = MemoryLayout((0, 3, 1, 2, 3), (0, 0, 0, 0, 8))
BLOCKED = "config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuBlockedChannels(4, 8);"
FIRST = "config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuChannelsFirst(4);"
OK = "return kLiteRtNpuOk;"


def operand(*shape: int, element_type: ElementType = F32, is_constant: bool = False) -> CpuOperand:
    return CpuOperand(RankedTensorType.of(element_type, shape), is_constant)


def one_op(*shape: int, element_type: ElementType = F32, name: str = "y") -> CpuOp:
    tensor = operand(*(shape or (1, 4, 4, 10)), element_type=element_type)
    return CpuOp("Double", name, (tensor,), (tensor,))


def chosen(path: Path, op: CpuOp, incoming: Sequence[MemoryLayout | None] = ()) -> Choice:
    return choose(CpuLayerLibrary(memoryview(path.read_bytes()), path.name), op, incoming)


def request(path: Path, *ops: CpuOp, producers: Any = None, op_name: str = "Double") -> Any:
    return {
        "path": str(path),
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "file_name": path.name,
        "op_name": op_name,
        "ops": [CPU_OP.dump(op) for op in ops],
        "producers": producers or [[None] * len(op.inputs) for op in ops],
        "patterns": [{"inputs": _shapes(op.inputs), "outputs": _shapes(op.outputs)} for op in ops],
    }


def _shapes(operands: Sequence[CpuOperand | None]) -> list[Any]:
    return [operand and operand.tensor_type.shape for operand in operands]


def in_child(path: Path, *ops: CpuOp, timeout_s: float = 30) -> list[Any]:
    return list(
        call_in_child(
            "vendor_reference.cpu_layer.library_worker:ask",
            request(path, *ops),
            timeout_s=timeout_s,
            subject="the library",
        )
    )


def test_what_needs_no_reorders_is_chosen(tmp_path: Path) -> None:
    path = library(
        tmp_path,
        implementations='"blocked", "first", "plain"',
        configuration=f"if (implementation == 0) {{ {BLOCKED} }} if (implementation == 1) {{ {FIRST} }} {OK}",
    )
    made = chosen(path, one_op())
    assert (made.implementation, made.name, made.reorders) == (2, "plain", 0)


def test_of_equals_the_library_s_first_is_chosen(tmp_path: Path) -> None:
    path = library(tmp_path, implementations='"one", "two"')
    assert chosen(path, one_op()).implementation == 0


def test_blocks_are_chosen_where_there_is_nothing_else(tmp_path: Path) -> None:
    made = chosen(library(tmp_path, configuration=BLOCKED + OK), one_op())
    assert made.reorders == 2 and made.config.outputs[0].layout == NCHW8C


def test_a_layout_is_kept_from_layer_to_layer(tmp_path: Path) -> None:
    path = library(
        tmp_path,
        implementations='"plain", "blocked"',
        configuration=f"if (implementation == 1) {{ {BLOCKED} }} {OK}",
    )
    made = chosen(path, one_op(), [NCHW8C])
    assert (made.name, made.reorders) == ("blocked", 1)


def test_any_layout_is_row_order(tmp_path: Path) -> None:
    any_layout = "config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuAnyLayout();"
    made = chosen(library(tmp_path, configuration=any_layout + OK), one_op())
    assert made.reorders == 0 and made.config.outputs[0].layout == MemoryLayout.row_order(4)


@pytest.mark.parametrize("layout", [NCHW8C, MemoryLayout((0, 3, 1, 2), (0,) * 4)], ids=str)
def test_any_layout_is_as_the_input_comes(tmp_path: Path, layout: MemoryLayout) -> None:
    any_layout = "config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuAnyLayout();"
    made = chosen(library(tmp_path, configuration=any_layout + OK), one_op(), [layout])
    assert made.config.outputs[0].layout == layout


def test_any_layout_of_other_shapes_is_row_order(tmp_path: Path) -> None:
    op = CpuOp("Double", "y", (operand(1, 4, 4, 10),), (operand(1, 4, 10, 4),))
    any_layout = "config->inputs[0].layout = config->outputs[0].layout = LiteRtNpuAnyLayout();"
    made = chosen(library(tmp_path, configuration=any_layout + OK), op, [NCHW8C])
    assert made.config.outputs[0].layout == MemoryLayout.row_order(4)


def test_floats_are_converted_and_nothing_else(tmp_path: Path) -> None:
    wants_float = """config->inputs[0].element_type = kLiteRtNpuFloat32;
        config->outputs[0].element_type = kLiteRtNpuFloat32;"""
    path = library(tmp_path, configuration=wants_float + OK)
    made = chosen(path, one_op(4, element_type=F16))
    assert made.config.outputs[0].element_type is F32
    with pytest.raises(LiteRtError) as error:
        chosen(path, one_op(4, element_type=I8))
    assert error.value.status is Status.UNSUPPORTED
    assert (
        "implementation 'plain' needs element type FLOAT32 for input 0, which is INT8"
        in error.value.what
    )


def test_a_constant_is_asked_for(tmp_path: Path) -> None:
    path = library(tmp_path, configuration=f"config->inputs[0].needs_constant = 1; {OK}")
    with pytest.raises(LiteRtError, match="implementation 'plain' needs a constant as input 0"):
        chosen(path, one_op(4))


def test_not_implemented_asks_for_another_configuration(tmp_path: Path) -> None:
    path = library(
        tmp_path,
        num_configurations="2",
        configuration=f"config->outputs[0].in_place = (int)index - 1; {OK}",
        init="""if (config->outputs[0].in_place < 0)
              return LiteRtNpuFail(message, kLiteRtNpuNotImplemented, "only in place");
            return kLiteRtNpuOk;""",
    )
    assert chosen(path, one_op()).config.outputs[0].in_place == 0


def test_not_implemented_can_propose_a_configuration(tmp_path: Path) -> None:
    path = library(
        tmp_path,
        configuration=f"config->dynamic_batch = 1; {FIRST} {OK}",
        init=f"""if (!config->dynamic_batch) return kLiteRtNpuOk;
            config->dynamic_batch = 0; {BLOCKED} return kLiteRtNpuNotImplemented;""",
    )
    made = chosen(path, one_op())
    assert not made.config.dynamic_batch and made.config.outputs[0].layout == NCHW8C


def test_a_library_that_always_proposes_another_comes_to_an_end(tmp_path: Path) -> None:
    path = library(
        tmp_path, init="config->dynamic_batch = !config->dynamic_batch; return kLiteRtNpuNotImplemented;"
    )  # fmt: skip
    with pytest.raises(
        LiteRtError,
        match="cannot run the op: implementation 'plain' refuses the op without a reason",
    ):
        chosen(path, one_op())


def test_an_op_that_a_layer_cannot_do_is_refused_with_its_words(tmp_path: Path) -> None:
    op = CpuOp("PReLU", "y", (operand(4), operand(4)), (operand(4),))
    with pytest.raises(
        LiteRtError,
        match="PReLU needs one output and two inputs: a tensor of rank 2 or more, and the slopes",
    ):
        chosen(prelu(tmp_path), op)


def test_the_child_answers_for_each_op(tmp_path: Path) -> None:
    about, first, second = in_child(library(tmp_path), one_op(4), one_op(5))
    assert about == {
        "library": "library 'test layers' (version 0.5)",
        "layer_types": ["Double"],
        "layer_type": "Double",
    }
    assert first["name"] == second["name"] == "plain" and first["reorders"] == 0


def test_of_several_layers_that_of_the_op_s_name_is_asked(tmp_path: Path) -> None:
    path = library(tmp_path, types='"Half", "Double"')
    assert next(ask(request(path)))["layer_type"] == "Double"  # type: ignore[index]
    with pytest.raises(LiteRtError) as error:
        list(ask(request(path, op_name="Triple")))
    assert (
        error.value.what
        == "the library has no layer for op 'Triple': its layer types are Half, Double"
    )


def test_the_only_layer_is_for_an_op_of_any_name(tmp_path: Path) -> None:
    answers = ask(request(library(tmp_path), op_name="Triple"))
    assert next(answers)["layer_type"] == "Double"  # type: ignore[index]


def test_a_chain_of_blocked_layers_has_its_layouts_known(tmp_path: Path) -> None:
    path = library(tmp_path, configuration=BLOCKED + OK)
    made = list(ask(request(path, one_op(), one_op(name="z"), producers=[[None], [[0, 0]]])))
    assert [answer["reorders"] for answer in made[1:]] == [2, 1]  # type: ignore[index]


def test_shapes_are_the_model_s(tmp_path: Path) -> None:
    path = library(tmp_path, shapes=f"shapes[0].dims[0] = 7; {OK}")
    with pytest.raises(LiteRtError) as error:
        list(ask(request(path, one_op(4))))
    assert (
        "computes the shape [7] for output 0, but the output has shape [4] in the model"
        in error.value.what
    )
    assert error.value.status is Status.INVALID_ARGUMENT and path.name in error.value.where


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    path = library(tmp_path)
    asked = request(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(LiteRtError, match="another program changed the temporary copy"):
        list(ask(asked))


def test_a_process_that_does_not_start_is_no_fault_of_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise ChildStartError(Status.DYNAMIC_LOADING, "no start", hint="Allow more processes.")

    monkeypatch.setattr(asking, "call_in_child", fail)
    with pytest.raises(LiteRtError) as error:
        list(asking.ask("ask", b"", "layer.so", "layer.so, op 'A'", {}))
    assert error.value.where == "layer.so, op 'A'" and error.value.hint == "Allow more processes."


@pytest.mark.parametrize("part", ["configuration", "init", "shapes"])
def test_a_crash_costs_a_message(tmp_path: Path, part: str) -> None:
    path = library(tmp_path, **{part: f"*(volatile int*)8 = 1; {OK}"})
    with pytest.raises(LiteRtError, match=r"the library crashed \(SIGSEGV"):
        in_child(path, one_op(4))


def test_a_hang_costs_a_message(tmp_path: Path) -> None:
    path = library(tmp_path, configuration=f"for (volatile int i = 0; i < 1; ) {{}} {OK}")
    with pytest.raises(LiteRtError, match=r"the library did not finish within 1 s") as error:
        in_child(path, one_op(4), timeout_s=1)
    assert error.value.status is Status.TIMEOUT_EXPIRED


def test_what_a_crashing_library_printed_is_in_the_message(tmp_path: Path) -> None:
    path = library(tmp_path, init='fputs("no license\\n", stderr); abort();')
    with pytest.raises(LiteRtError, match="no license"):
        in_child(path, one_op(4))
