"""Tests that after thousands of random edits stock LiteRT accepts each model and computes the expected outputs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from compiler_plugin.transformations.clean_up import emit, tidy
from compiler_plugin.transformations.graph import Graph
from compiler_plugin.transformations.graph_check import check_graph
from compiler_plugin.transformations.node import InPort, Node, OutPort
from compiler_plugin.transformations.partial_inference import PartialInference
from litert.core.errors import LiteRtError
from litert.model.builder import ModelBuilder
from litert.model.diff import diff_models
from litert.model.graph import Model, Tensor
from litert.model.reader import read_model
from litert.model.writer import to_bytes

Array: TypeAlias = "np.ndarray[Any, Any]"
ROWS = 2
UNARY = ("ABS", "NEG", "RELU", "TANH")
BINARY = ("ADD", "SUB", "MAXIMUM")
EDITS_A_MODEL, MODELS = 28, 110


def random_model(rng: random.Random) -> Model:
    """Builds a model of ops on rows of four numbers; in some models, the number of rows is known only in a run."""
    b = ModelBuilder()
    rows = rng.choice([ROWS, ROWS, -1])

    def tensor(name: str, width: int = 4) -> Tensor:
        signature = None if rows > 0 else (rows, width)
        return b.tensor(name, "float32", (ROWS, width), shape_signature=signature)

    wholes = [
        b.input(f"x{i}", "float32", (ROWS, 4), shape_signature=None if rows > 0 else (rows, 4))
        for i in range(rng.randint(1, 3))
    ]
    halves: list[Tensor] = []
    for index in range(rng.randint(2, 12)):
        kind, name = rng.random(), f"t{index}"
        x, y = rng.choice(wholes), rng.choice(wholes)
        if kind < 0.3:
            wholes.append(b.op(rng.choice(UNARY), [x], [tensor(name)]))
        elif kind < 0.6:
            if rng.random() < 0.3:
                y = b.constant(f"{name}/c", rng_array(rng, (4,)))
            wholes.append(b.op(rng.choice(BINARY), [x, y], [tensor(name)]))
        elif kind < 0.75:
            w = b.constant(f"{name}/w", rng_array(rng, (4, 4)))
            bias = b.constant(f"{name}/b", rng_array(rng, (4,))) if rng.random() < 0.5 else None
            wholes.append(b.op("FULLY_CONNECTED", [x, w, bias], [tensor(name)]))
        elif kind < 0.9:
            axis = b.constant(f"{name}/axis", np.int32(1))
            outputs = [tensor(f"{name}:{i}", 2) for i in range(2)]
            halves += b.op("SPLIT", [axis, x], outputs, num_splits=2)
        elif halves:
            parts = [rng.choice(halves), rng.choice(halves)]
            wholes.append(b.op("CONCATENATION", parts, [tensor(name)], axis=1))
    made = [tensor for tensor in (*wholes, *halves) if tensor.producer] or wholes
    b.output(*rng.sample(made, min(len(made), rng.randint(1, 3))))
    if rng.random() < 0.7:
        b.signature("main")
    return b.build()


def rng_array(rng: random.Random, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape))
    return np.array([rng.uniform(-1, 1) for _ in range(count)], np.float32).reshape(shape)


class Evaluation:
    """Computes in NumPy what a graph computes, by following its ports."""

    def __init__(self, inputs: dict[str, Array]) -> None:
        self._inputs = inputs
        self._known: dict[Node, list[Array]] = {}

    def results(self, graph: Graph) -> dict[str, Array]:
        return {result.name: self._value(result.in_port(0)) for result in graph.results}

    def _value(self, port: InPort) -> Array:
        source = port.get_source()
        assert source is not None
        return self._outputs(source.node)[source.index]

    def _outputs(self, node: Node) -> list[Array]:
        if node not in self._known:
            if node.op == "Parameter":
                self._known[node] = [self._inputs[node.name]]
            elif node.is_const:
                value = node.out_port(0).data.get_value()
                assert value is not None
                self._known[node] = [value]
            else:
                inputs = [
                    self._value(p) for p in node.in_ports().values() if p.get_source() is not None
                ]
                self._known[node] = self._apply(node, inputs)
        return self._known[node]

    def _apply(self, node: Node, inputs: list[Array]) -> list[Array]:
        if node.op == "SHAPE":
            return [np.array(inputs[0].shape, np.int32)]
        if node.op == "RESHAPE":  # emission inserts it before a result
            return inputs[:1]
        if node.op == "SPLIT":
            return np.split(inputs[1], 2, axis=1)
        if node.op == "CONCATENATION":
            return [np.concatenate(inputs, axis=1)]
        if node.op == "FULLY_CONNECTED":
            found = inputs[0] @ inputs[1].T + (inputs[2] if len(inputs) > 2 else 0)
        else:
            found = _FUNCTIONS[node.op](*inputs)
        if node.soft_get("fused_activation_function", "NONE") == "RELU":
            found = np.maximum(found, 0)
        return [found.astype(np.float32)]


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "ABS": np.abs, "NEG": np.negative, "RELU": lambda x: np.maximum(x, 0), "TANH": np.tanh,
    "ADD": np.add, "SUB": np.subtract, "MAXIMUM": np.maximum,
}  # fmt: skip


class Editor:
    """Makes random edits of a graph, with operands for which the edits are valid."""

    def __init__(self, graph: Graph, rng: random.Random) -> None:
        self.graph = graph
        self.rng = rng
        self.edits = [
            self.connect, self.set_source, self.set_destination, self.add_destination,
            self.insert_node, self.replace_node, self.remove_node, self.create, self.swap,
            self.change_option, self.change_constant, self.rename, self.disconnect_bias,
            self.clean_up, self.sort, self.name_result, self.close_a_cycle, self.refuse,
        ]  # fmt: skip

    def edit(self) -> None:
        self.rng.choice(self.edits)()

    # Operands of edits.

    def sources(self, like: OutPort | None = None) -> list[OutPort]:
        nodes = [n for n in (*self.graph.parameters, *self.graph.nodes) if n.op != "SHAPE"]
        ports = [port for node in nodes for port in node.out_ports().values()]
        width = 4 if like is None else width_of(like)
        return [port for port in ports if width_of(port) == width]

    def destinations(self) -> list[InPort]:
        """Returns input ports that may read any other value of the same shape: those that read no constant."""
        ports = [
            p for node in [*self.graph.nodes, *self.graph.results] for p in node.in_ports().values()
        ]
        sources = [(port, port.get_source()) for port in ports]
        return [p for p, s in sources if s and not (s.node.is_const or s.node.op == "SHAPE")]

    def source_for(self, port: InPort) -> OutPort | None:
        """Returns a value of the same shape that does not depend on the port's node, if there is one."""
        behind = set(self.behind(port.node))
        found = [s for s in self.sources(port.get_source()) if s.node not in behind]
        return self.rng.choice(found) if found else None

    def behind(self, node: Node) -> Iterator[Node]:
        seen, waiting = {node}, [node]
        while waiting:
            current = waiting.pop()
            yield current
            for out in current.out_ports().values():
                for reader in out.get_destinations():
                    if reader.node not in seen:
                        seen.add(reader.node)
                        waiting.append(reader.node)

    def unary(self, source: OutPort | None) -> Node:
        return self.graph.create_op(self.rng.choice(UNARY), [source])

    def ops(self, *names: str) -> list[Node]:
        return [node for node in self.graph.nodes if not names or node.op in names]

    # Edits.

    def connect(self) -> None:
        port = self.rng.choice(self.destinations())
        source = self.source_for(port)
        if source is not None:
            port.connect(source)
            assert port.get_source() == source

    def set_source(self) -> None:
        old = self.rng.choice(self.sources())
        readers = old.get_destinations()
        behind = {node for reader in readers for node in self.behind(reader.node)}
        choice = [s for s in self.sources(old) if s.node not in behind]
        if choice:
            new = self.rng.choice(choice)
            old.get_connection().set_source(new)
            assert all(reader.get_source() == new for reader in readers)

    def set_destination(self) -> None:
        old = self.rng.choice(self.sources())
        readers = [reader for reader in old.get_destinations() if not reader.node.is_result]
        if len(readers) == len(old.get_destinations()) and len(readers) > 1:
            kept = self.rng.choice(readers)
            old.get_connection().set_destination(kept)
            assert old.get_destinations() == [kept]
            for reader in readers:
                if reader != kept:
                    reader.connect(old)

    def add_destination(self) -> None:
        port = self.rng.choice(self.destinations())
        source = self.source_for(port)
        if source is not None:
            source.get_connection().add_destination(port)
            assert port in source.get_destinations()

    def insert_node(self) -> None:
        source = self.rng.choice(self.sources())
        readers = source.get_destinations()
        node = self.unary(None)
        source.get_connection().insert_node(node)
        assert node.out_port(0).get_destinations() == readers
        assert [p.node for p in source.get_destinations()] == [node]

    def replace_node(self) -> None:
        old = self.rng.choice(self.ops())
        if len(old.out_ports()) == 1:
            behind = set(self.behind(old))
            sources = [s for s in self.sources() if s.node not in behind]
            name, readers = old.name, old.out_port(0).get_destinations()
            if sources and width_of(old.out_port(0)) == 4:
                new = self.unary(self.unary(self.rng.choice(sources)).out_port(0))
                self.graph.replace_node(old, new)
                assert new.name == name and not old.is_alive
                assert len(new.out_port(0).get_destinations()) == len(readers)

    def remove_node(self) -> None:
        node = self.rng.choice(self.ops())
        if not any(port.get_destinations() for port in node.out_ports().values()):
            self.graph.remove_node(node)
            assert not node.is_alive

    def create(self) -> None:
        source, other = self.rng.choice(self.sources()), rng_array(self.rng, (1, 4))
        node = self.graph.create_op(self.rng.choice(BINARY), [source, other], name="made")
        readers = [p for p in self.destinations() if p.get_source() == source]
        if readers and self.rng.random() < 0.8:
            ports = [p for p in readers if p.node is not node]
            if ports:
                self.rng.choice(ports).connect(node.out_port(0))

    def swap(self) -> None:
        """Exchanges the sources of two results."""
        first, second = self.rng.choice(self.graph.results), self.rng.choice(self.graph.results)
        one, other = first.in_port(0).get_source(), second.in_port(0).get_source()
        assert one is not None and other is not None
        first.in_port(0).connect(other)
        second.in_port(0).connect(one)

    def change_option(self) -> None:
        for node in self.ops("ADD", "SUB", "FULLY_CONNECTED")[:2]:
            node.fused_activation_function = self.rng.choice(["NONE", "RELU"])

    def change_constant(self) -> None:
        for node in self.graph.constants()[:3]:
            shape = node.out_port(0).data.get_shape()
            if shape:
                value = rng_array(self.rng, shape)
                node.out_port(0).data.set_value(value)
                np.testing.assert_array_equal(node.out_port(0).data.get_value(), value)

    def rename(self) -> None:
        node = self.rng.choice(self.ops())
        node.name = self.graph.unique_name("renamed")

    def name_result(self) -> None:
        result = self.rng.choice(self.graph.results)
        result.name = f"public_{self.rng.randrange(1000)}"

    def disconnect_bias(self) -> None:
        for node in self.ops("FULLY_CONNECTED")[:1]:
            if node.is_in_port_connected(2):
                node.in_port(2).disconnect()
                assert node.in_port(2).get_source() is None

    def clean_up(self) -> None:
        self.graph.clean_up()

    def sort(self) -> None:
        self.graph.topological_sort()

    # Invalid edits.

    def close_a_cycle(self) -> None:
        """Closes a cycle, which only the check of the whole graph finds, and opens it again."""
        port = self.rng.choice(self.destinations())
        old = port.get_source()
        behind = [n for n in self.behind(port.node) if n is not port.node and n.is_op]
        ends = [s for n in behind for s in n.out_ports().values() if old and s in self.sources(old)]
        if old is not None and ends:
            port.connect(self.rng.choice(ends))
            with pytest.raises(LiteRtError, match="form a cycle"):
                check_graph(self.graph)
            port.connect(old)

    def refuse(self) -> None:
        """Checks that invalid edits are refused and change nothing."""
        graph, node = self.graph, self.rng.choice(self.ops())
        source, other = self.rng.choice(self.sources()), random_model(self.rng)
        foreign = Graph(other, other.subgraphs[0]).parameters[0].out_port(0)
        removed = self.unary(source)
        stale, stale_in = removed.out_port(0), removed.in_port(0)
        nonsense = cast(Any, object())
        graph.remove_node(removed)
        read = next(s for s in self.sources() if s.get_destinations())
        refused: list[Callable[[], object]] = [
            lambda: node.in_port(0).connect(node.out_port(0)),
            lambda: node.in_port(0).connect(foreign),
            lambda: node.in_port(0).connect(stale),
            lambda: stale_in.connect(source),
            lambda: stale_in.disconnect(),
            lambda: read.get_connection().set_source(stale),
            lambda: read.get_connection().set_source(foreign),
            lambda: read.get_connection().set_destination(stale_in),
            lambda: read.get_connection().insert_node(removed),
            lambda: read.get_connection().insert_node(read.node),
            lambda: graph.results[0].in_port(0).disconnect(),
            lambda: graph.results[0].in_port(0).get_connection().remove(),
            lambda: graph.remove_node(read.node),
            lambda: graph.remove_node(graph.results[0]),
            lambda: graph.remove_node(removed),
            lambda: graph.replace_node(node, removed),
            lambda: graph.replace_node(node, node),
            lambda: graph.replace_node(graph.parameters[0], node),
            lambda: graph.create_op("ADD", [np.ones(4, "f4"), foreign]),
            lambda: graph.create_op("ADD", [np.ones(4, "f4"), stale]),
            lambda: graph.create_op("ADD", [np.ones(4, "f4"), nonsense]),
            lambda: graph.create_op("ADD", [source, source], {"no_option": 1}),
            lambda: graph.create_op("ADDD", [source, np.ones(4, "f4")]),
            lambda: node.in_port(9),
            lambda: node.add_input_port(foreign),
            lambda: node.add_input_port(node.out_port(0)),
            lambda: node.delete_input_port(9),
            lambda: removed.add_input_port(),
            lambda: source.data.set_shape([1, -5]),
            lambda: setattr(removed, "name", "x"),
        ]
        for number, edit in enumerate(refused):
            before = picture(graph)
            with pytest.raises(LiteRtError):
                edit()
                pytest.fail(f"edit {number} was not refused")
            for part, (was, now) in enumerate(zip(before, picture(graph), strict=True)):
                assert was == now, f"edit {number} has changed part {part}"


def width_of(port: OutPort) -> int:
    shape = port.data.get_shape()
    assert shape is not None
    return shape[-1]


def picture(graph: Graph) -> tuple[object, ...]:
    """Returns everything in a graph that an edit can change."""
    return (
        [
            (op.name, op.code.version, list(map(id, op.inputs)), list(map(id, op.outputs)), op.options)
            for op in (node.model_op for node in graph.nodes if node.model_op)
        ],
        [(id(t), t.name, t.shape, t.shape_signature, t.element_type, id(t.buffer),
          [id(op) for op in t.uses], id(t.producer)) for t in graph.subgraph.tensors],
        [(result.name, id(result.tensor)) for result in graph.results],
        [(s.key, s.inputs[:], s.outputs[:]) for s in graph.model.signatures],
        [id(tensor) for tensor in graph.subgraph.outputs],
        [id(buffer) for buffer in graph.model.buffers],
        [id(code) for code in graph.model.operator_codes],
    )  # fmt: skip


def run_stock(data: bytes, inputs: dict[str, Array]) -> dict[str, Array]:
    interpreter = Interpreter(model_content=data)
    for detail in interpreter.get_input_details():
        interpreter.resize_tensor_input(detail["index"], inputs[detail["name"]].shape, strict=True)
    interpreter.allocate_tensors()
    for detail in interpreter.get_input_details():
        interpreter.set_tensor(detail["index"], inputs[detail["name"]])
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


@pytest.mark.parametrize("seed", range(MODELS))
def test_no_edit_leaves_a_model_that_stock_refuses(seed: int) -> None:
    rng = random.Random(seed)
    model = random_model(rng)
    rows = ROWS if model.subgraphs[0].inputs[0].shape_signature is None else 5
    inputs = {t.name: rng_array(rng, (rows, 4)) for t in model.subgraphs[0].inputs}
    signatures = [[name for name, _ in s.outputs] for s in model.signatures]
    for _ in range(2):
        subgraph = model.subgraphs[0]
        graph = Graph(model, subgraph, PartialInference(subgraph))
        editor = Editor(graph, rng)
        for _ in range(EDITS_A_MODEL // 2 + 1):
            if editor.ops():
                editor.edit()
        graph.infer()
        check_graph(graph)
        expected = Evaluation(inputs).results(graph)
        emit(graph)
        tidy([graph])
        data = to_bytes(model)
        found = run_stock(data, inputs)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-5)
        model = read_model(data)
        assert diff_models(graph.model, model).is_same
        assert [[name for name, _ in s.outputs] for s in model.signatures] == signatures
