"""Tests that a C plugin sees the same in our host as in stock's."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler_plugin.native.option_slots import option_slots
from litert.abi.vendor_flags import vendor_payloads
from litert.core.compiler_options import PARTITION_STRATEGIES
from litert.core.quantization import BlockwiseQuantization, Quantization
from litert.model.builder import ModelBuilder
from litert.model.builtin_options import find_options_type
from litert.model.custom_options import write_flexbuffer_options
from litert.model.graph import Model
from litert.model.reader import read_model
from litert.model.schema import ENUMS
from litert.model.schema_types import FieldKind, table_schema
from litert.model.writer import write_model
from tests.compiler_plugin.native.conftest import BothHosts, read_calls

MATRIX = ("float32", (4, 4))


def _two_chains() -> Model:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    y = builder.input("y", "float32", (1, 4))
    shape = (1, 4)
    a = builder.op("RELU", [x], [("a", "float32", shape)])
    b = builder.op("TANH", [y], [("b", "float32", shape)])
    c = builder.op("RELU6", [a], [("c", "float32", shape)])
    d = builder.op("LOGISTIC", [b], [("d", "float32", shape)])
    e = builder.op("ADD", [c, d], [("e", "float32", shape)], fused_activation_function="RELU")
    builder.output(builder.op("MUL", [e, a], [("f", "float32", shape)]))
    return builder.build()


def _random_model(seed: int) -> Model:
    """Returns a random model: each op reads tensors of earlier ops, and a few tensors are outputs."""
    rng = random.Random(seed)
    builder = ModelBuilder()
    tensors = [builder.input(f"x{i}", "float32", (2, 2)) for i in range(2)]
    for index in range(12):
        output = [(f"t{index}", "float32", (2, 2))]
        if rng.random() < 0.5:
            tensors.append(builder.op("NEG", [rng.choice(tensors)], output))
        else:
            tensors.append(builder.op("ADD", rng.choices(tensors, k=2), output))
    read = {id(tensor) for op in builder.graph.ops for tensor in op.inputs}
    for tensor in tensors[2:]:
        if id(tensor) not in read:
            builder.output(tensor)
    return builder.build()


@pytest.mark.parametrize("take", ["all", "0,2,3", "0,1,4,5", "0,2,5", "3", "0:7,1:7,2:3,3:3,4:7"])
def test_partitions_are_those_of_stock(both_hosts: BothHosts, take: str) -> None:
    stock, ours = both_hosts.calls(_two_chains(), SCRIBE_TAKE=take)
    assert ours == stock
    assert ours


@pytest.mark.parametrize("seed", range(4))
def test_partitions_of_random_graphs_are_those_of_stock(both_hosts: BothHosts, seed: int) -> None:
    rng = random.Random(seed)
    taken = rng.sample(range(12), 8)
    take = ",".join(f"{op}:{rng.choice([0, 0, 1])}" for op in taken)
    stock, ours = both_hosts.calls(_random_model(seed), SCRIBE_TAKE=take)
    assert ours == stock


def _runs(path: Path) -> bool:
    """Returns whether each op of a file comes after the ops whose outputs it reads."""
    with read_model(path) as model:
        seen = set(model.subgraphs[0].inputs)
        for op in model.subgraphs[0].ops:
            if not seen.issuperset(t for t in op.inputs if t is not None and not t.is_constant):
                return False
            seen.update(op.outputs)
    return True


def test_weakly_connected_partitions_are_those_of_stock_unless_they_are_a_cycle(
    both_hosts: BothHosts,
) -> None:
    compared = 0
    for seed in range(12):
        rng = random.Random(seed)
        taken = sorted(rng.sample(range(12), 9))
        both_hosts.setenv("SCRIBE_TAKE", ",".join(f"{op}:{rng.choice([0, 0, 1])}" for op in taken))
        model = both_hosts.written(_random_model(seed))
        ours = both_hosts.ours(model, strategy="weakly_connected")
        stock = both_hosts.stock(model, "--partition_strategy=weakly_connected")
        assert _runs(ours)
        found, expected = ([call.text for call in read_calls(path)] for path in (ours, stock))
        if _runs(stock):
            assert sorted(found) == sorted(expected)  # stock orders its partitions by address
            compared += 1
        else:
            assert len(found) > len(expected)
    assert 0 < compared < 12


def test_a_strategy_and_a_limit_are_told_as_in_stock(both_hosts: BothHosts) -> None:
    written = both_hosts.folder / "options.txt"
    both_hosts.setenv("SCRIBE_OPTIONS", str(written))
    both_hosts.setenv("SCRIBE_PAYLOADS", "compiler_options_string")
    model = both_hosts.written(_two_chains())
    for strategy in PARTITION_STRATEGIES:
        told: list[str] = []
        both_hosts.stock(model, f"--partition_strategy={strategy}")
        told.append(written.read_text().partition("tag")[0])
        both_hosts.ours(model, strategy=strategy)
        told.append(written.read_text().partition("tag")[0])
        assert told[0] == told[1] and "max_partitions = 0" in told[0]


def test_real_networks_look_as_in_stock(both_hosts: BothHosts, networks: Path) -> None:
    for network in sorted(networks.glob("*.tflite")):
        stock, ours = both_hosts.calls(network, SCRIBE_TAKE="all")
        assert ours == stock, network.name


def test_in_a_process_of_its_own_a_plugin_sees_the_same(
    both_hosts: BothHosts, networks: Path
) -> None:
    network = networks / "selfie_segmentation.tflite"
    both_hosts.setenv("SCRIBE_TAKE", "all")
    assert read_calls(both_hosts.isolated(network)) == read_calls(both_hosts.ours(network))


def _option_value(type_name: str, field: Any) -> Any:
    """Returns a value for an option that differs from its default."""
    if field.kind is FieldKind.VECTOR:
        return [2, 3]
    if field.type_name in ENUMS:
        return sorted(ENUMS[field.type_name])[1]
    if field.code == "?":
        return not field.default
    return 0.25 if field.code == "f" else sum(map(ord, field.name)) % 100


@pytest.mark.parametrize("operator", sorted(option_slots()))
def test_options_are_read_as_in_stock(both_hosts: BothHosts, operator: str) -> None:
    found = find_options_type(operator)
    assert found is not None
    fields = table_schema(found[1]).fields
    told = {slot.field for slot in option_slots()[operator]}
    builder = ModelBuilder()
    x = builder.input("x", "float32", (2, 3, 4))
    given: dict[str, Any] = {name: _option_value(found[1], fields[name]) for name in told}
    for name, options in (("said", given), ("unsaid", {})):
        builder.output(builder.op(operator, [x], [builder.tensor(name, "int8", (1, 2))], **options))
    model = builder.build()
    bare = builder.op(operator, [x], [builder.tensor("bare", "int8", (1, 2))])
    builder.output(bare)
    model.subgraphs[0].ops[-1].options = None
    stock, ours = both_hosts.calls(model, SCRIBE_TAKE="all")
    assert ours == stock
    assert all(slot.slot in ours[0].text for slot in option_slots()[operator])


def test_tensors_and_custom_ops_look_as_in_stock(both_hosts: BothHosts) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "int8", (2, 3), quantization=Quantization((0.5,), (3,)))
    weights = builder.constant(
        "weights",
        np.arange(12, dtype=np.int8).reshape(4, 3),
        quantization=Quantization((0.1, 0.2, 0.3, 0.4), (0, 1, 2, 3), 0),
    )
    y = builder.op("FULLY_CONNECTED", [x, weights, None], [("y", "int8", (2, 4))])
    z = builder.custom(
        "My.Op",
        [y, None, y],
        [("z", "float32", (2, 4)), ("scalar", "int64", ())],
        options={"alpha": 0.5},
    )
    shape = builder.tensor("dynamic", "float32", (1, 4), shape_signature=(-1, 4))
    shape.has_rank = True  # as the converter writes it; without this, stock shows 1 for -1
    builder.output(builder.op("RESHAPE", [z[0]], [shape], new_shape=[-1, 4]))
    builder.output(z[1])
    stock, ours = both_hosts.calls(builder.build(), SCRIBE_TAKE="all")
    assert ours == stock
    assert "custom 0:My.Op" in ours[0].text and " many 0:0,0x1.99" in ours[0].text


def test_weights_of_two_partitions_and_signatures_are_one_buffer_as_in_stock(
    both_hosts: BothHosts,
) -> None:
    """The plugin writes, for each id, its index among the ids that it has seen, starting in `partition`."""
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 4))
    bias = builder.constant("bias", np.zeros(4, np.float32))
    weights = builder.constant("w", np.eye(4, dtype=np.float32))
    again = builder.constant("again", weights.buffer, *MATRIX)
    a = builder.op("FULLY_CONNECTED", [x, weights, bias], [("a", "float32", (1, 4))])
    b = builder.op("RELU", [a], [("b", "float32", (1, 4))])
    builder.output(builder.op("FULLY_CONNECTED", [b, again], [("c", "float32", (1, 4))]))
    builder.signature("first")
    second = builder.subgraph("second")
    y = second.input("y", "float32", (2, 4))
    third = second.constant("third", weights.buffer, *MATRIX)
    second.output(second.op("FULLY_CONNECTED", [y, third], [("d", "float32", (2, 4))]))
    second.signature("second")
    path = both_hosts.written(builder.build())
    stock, ours = both_hosts.calls(path, SCRIBE_TAKE="0,2")
    assert ours == stock
    assert read_calls(both_hosts.isolated(path)) == stock
    found = [dict(re.findall(r"tensor 0:(\w+) .* buffer 0 0 (\d+)", c.text)) for c in ours]
    assert found == [{"w": "0", "bias": "1"}, {"again": "0"}, {"third": "0"}]


@pytest.mark.parametrize(
    ("attributes", "index"),
    [(b"\x01\x02\xff", 1), (write_flexbuffer_options({"a": 1}), -1)],
    ids=["of bytes", "of a map"],
)
def test_composites_look_as_in_stock(both_hosts: BothHosts, attributes: bytes, index: int) -> None:
    builder = ModelBuilder()
    body = builder.subgraph("body")
    body.output(body.op("NEG", [body.input("a", "float32", (2,))], [("b", "float32", (2,))]))
    x = builder.input("x", "float32", (2,))
    builder.output(
        builder.op(
            "STABLEHLO_COMPOSITE",
            [x],
            [("y", "float32", (2,))],
            name="acme.neg",
            decomposition_subgraph_index=body,
            composite_attributes=attributes,
        )
    )
    (op,) = builder.graph.ops
    assert op.options_2 is not None
    op.options_2 = op.options_2.with_fields(version=3)
    stock, ours = both_hosts.calls(builder.build(), SCRIBE_TAKE="0")
    assert ours[0] == stock[0]
    assert f"composite acme.neg {index} 3 {attributes.hex(' ')}" in ours[0].text


def test_block_wise_quantization_looks_as_in_stock(both_hosts: BothHosts) -> None:
    builder = ModelBuilder()
    x = builder.input("x", "float32", (1, 8))
    scales = builder.constant("scales", np.full((4, 2), 0.5, np.float16))
    blocks = Quantization(blockwise=BlockwiseQuantization(scales, None, 4))
    weights = builder.constant(
        "weights", np.arange(32, dtype=np.int8).reshape(4, 8), quantization=blocks
    )
    builder.output(builder.op("FULLY_CONNECTED", [x, weights], [("y", "float32", (1, 4))]))
    stock, ours = both_hosts.calls(builder.build(), SCRIBE_TAKE="all")
    assert ours == stock
    assert " blocks 0:4 by scales " in ours[0].text


def test_a_plugin_gets_its_partitions_as_a_model(both_hosts: BothHosts) -> None:
    model = both_hosts.written(_two_chains())
    both_hosts.setenv("SCRIBE_TAKE", "0,2,3,5")
    serialized: list[list[object]] = []
    for run in (both_hosts.stock, both_hosts.ours):
        path = both_hosts.folder / "partitions.tflite"
        both_hosts.setenv("SCRIBE_FILE", str(path))
        run(model)
        with read_model(path) as partitions:
            serialized.append(
                [
                    (
                        signature.key,
                        [name for name, _ in signature.inputs],
                        [name for name, _ in signature.outputs],
                        [op.name for op in signature.subgraph.ops],
                    )
                    for signature in partitions.signatures
                ]
            )
    assert serialized[0] == serialized[1]
    assert [entry[0] for entry in serialized[1]] == ["first", "second", "third"]  # type: ignore[index]


_FLAGS = {
    "intel_openvino": {
        "intel_openvino_graph_backends": "0:cpu;1:gpu",
        "intel_openvino_configs_map": "A=b,C=d",
        "intel_openvino_graph_configs_map": "1:K=v",
        "intel_openvino_performance_mode": "throughput",
    },
    "qualcomm": {
        "qualcomm_backend": "dsp",
        "qualcomm_optimization_level": "O1",
        "qualcomm_dump_tensor_ids": "1,2",
        "qualcomm_htp_performance_mode": "balanced",
        "qualcomm_htp_pd_session": "signed",
        "qualcomm_dsp_pd_session": "adaptive",
        "qualcomm_dsp_encoding": "dynamic",
        "qualcomm_graph_priority": "normal_high",
        "qualcomm_profiling": "optrace",
        "qualcomm_lpai_target": "arm",
        "qualcomm_graph_io_tensor_mem_type": "raw",
        "qualcomm_ir_json_dir": "/tmp/x y",
    },
    "mediatek": {
        "mediatek_optimization_hint": "deep_fusion",
        "mediatek_sdk_version_type": "version7",
        "mediatek_performance_mode_type": "turbo_boost",
    },
    "google_tensor": {
        "google_tensor_sharding_intensity": "minimal",
        "google_tensor_truncation_type": "half",
        "google_tensor_int64_to_int32": "true",
        "google_tensor_extra_options": "x",
    },
    "samsung": {"samsung_soc_model": "E9955", "samsung_large_model_support": "true"},
}


@pytest.mark.parametrize("identifier", sorted(_FLAGS))
def test_vendors_flags_are_the_payloads_of_stock(both_hosts: BothHosts, identifier: str) -> None:
    flags = _FLAGS[identifier]
    written = both_hosts.folder / "options.txt"
    both_hosts.setenv("SCRIBE_OPTIONS", str(written))
    both_hosts.setenv("SCRIBE_PAYLOADS", identifier)
    builder = ModelBuilder()
    builder.output(
        builder.op("NEG", [builder.input("x", "int8", (1,))], [builder.tensor("y", "int8", (1,))])
    )
    model = both_hosts.folder / "model.tflite"
    write_model(builder.build(), model)
    both_hosts.stock(model, *(f"--{name}={value}" for name, value in flags.items()))
    stock = written.read_text().splitlines()
    (payload,) = vendor_payloads(identifier, flags).values()
    assert set(payload.decode().splitlines()) <= set(stock)


def test_a_plugin_reads_its_flags_and_the_environment(both_hosts: BothHosts) -> None:
    written = both_hosts.folder / "options.txt"
    both_hosts.setenv("SCRIBE_OPTIONS", str(written))
    both_hosts.setenv("SCRIBE_PAYLOADS", "scribe,another")
    model = both_hosts.folder / "model.tflite"
    write_model(_two_chains(), model)
    both_hosts.ours(model, scribe_ink="blue", scribe_lines="3")
    assert written.read_text().startswith(
        'scribe 0\nink = "blue"\nlines = 3\nanother 6\ntag 0 type 8\n'
    )


def test_nothing_selected_leaves_a_model_without_calls(both_hosts: BothHosts) -> None:
    stock, ours = both_hosts.calls(_two_chains())
    assert stock == ours == []
