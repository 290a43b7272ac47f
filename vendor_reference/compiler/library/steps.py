"""From an expression to a program of the firmware's element-wise instruction.

    min(6, max(0, a + b))

is Python's syntax. The operands are `a` to `h`; `x if c else y` chooses; a comparison is 0 or 1; `float(a)`
converts; all other functions are operations of the firmware, by their names there without the type.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from litert.core.element_type import ElementType
from vendor_reference.firmware.operations import NUM_REGISTERS, operation_numbers

OPERANDS = "abcdefgh"

_E = ElementType

_LANES = {
    _E.FLOAT32: "float", _E.FLOAT16: "float", _E.FLOAT64: "double",
    _E.INT8: "int", _E.UINT8: "int", _E.BOOL: "int", _E.INT16: "int", _E.UINT16: "int",
    _E.INT32: "int", _E.UINT32: "uint", _E.INT64: "long", _E.UINT64: "ulong",
}  # fmt: skip
"""What elements are in a program."""

_STORED = {
    _E.FLOAT16: "half", _E.INT8: "char", _E.UINT8: "uchar", _E.BOOL: "uchar", _E.INT16: "short",
    _E.UINT16: "ushort",
}  # fmt: skip
"""Elements that are not as they are in a program."""

_CONSTANTS = {"float": "<f", "int": "<i", "uint": "<I", "long": "<q", "ulong": "<Q", "double": "<d"}
_WIDE = ("long", "ulong", "double")
_SIGNED = {"uint": "int", "ulong": "long"}
"""Types whose operations are those of another."""

_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Lt: "less", ast.LtE: "less_equal",
    ast.Gt: "less", ast.GtE: "less_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
}  # fmt: skip
"""Those with `>` have their operands the other way round."""

_COMPARISONS = ("less", "less_equal", "equal", "not_equal")


@dataclass(frozen=True, slots=True)
class Scale:
    """Integers stand for `scale * (integer - zero_point)`."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Port:
    """What a program loads or stores.

    Attributes:
      scale: where its integers stand for real numbers.
    """

    element_type: ElementType
    scale: Scale | None = None

    @property
    def lane(self) -> str:
        """What its elements are in a program."""
        return "float" if self.scale else _LANES[self.element_type]

    @property
    def memory(self) -> str:
        """How operations that load and store it are called: `32`, `char`, ..."""
        return _STORED.get(self.element_type) or str(self.element_type.bits)


def write_program(expression: str, operands: Sequence[Port], result: Port) -> bytes:
    """The program of an expression, as the firmware's `Program` has it.

    Raises:
      ValueError: if it needs more registers than there are.
    """
    return _Program(operands, result).write(ast.parse(expression, mode="eval").body)


@dataclass(eq=False, frozen=True, slots=True)
class _Step:
    """A step of a program, and what it makes.

    Attributes:
      lane: what its elements are: `float`, `int`, `uint`, `long`, `ulong` or `double`.
      number: of a constant.
    """

    operation: str
    lane: str
    sources: tuple[_Step, ...] = ()
    number: float = 0

    @property
    def size(self) -> int:
        """How many registers it fills."""
        return 2 if self.lane in _WIDE else 1


class _Program:
    """A program in the making; equal steps are one."""

    def __init__(self, operands: Sequence[Port], result: Port) -> None:
        self._constants: dict[tuple[str, float], _Step] = {}
        self._loads = [self._load(operand) for operand in operands]
        self._computed: dict[tuple[str, str, tuple[_Step, ...]], _Step] = {}
        self._result = result

    def write(self, expression: ast.expr) -> bytes:
        root = self._value(expression, self._result.lane)
        store = self._store(root)
        steps = [*self._ready(), *self._computed.values(), store]
        registers = self._allot(root)
        is_direct = root in self._computed.values() and store.operation in ("store_32", "store_64")
        direct = registers[root] if is_direct else NUM_REGISTERS
        head = struct.pack("<4I", len(self._constants), len(self._loads), len(steps), direct)
        return head + b"".join(_encode(step, registers) for step in steps)

    def _load(self, port: Port) -> _Step:
        if port.scale is None:
            return _Step(f"load_{port.memory}", port.lane)
        zero = self._constant("float", port.scale.zero_point)
        return _Step(
            f"dequantize_{port.memory}", "float", (zero, self._constant("float", port.scale.scale))
        )

    def _store(self, value: _Step) -> _Step:
        port = self._result
        if port.scale is None:
            return _Step(f"store_{port.memory}", port.lane, (value,))
        zero = self._constant("float", port.scale.zero_point)
        inverse = self._constant("float", 1 / port.scale.scale)
        return _Step(f"quantize_{port.memory}", "float", (value, zero, inverse))

    def _constant(self, lane: str, number: float) -> _Step:
        operation = "constant_64" if lane in _WIDE else "constant"
        return self._constants.setdefault((lane, number), _Step(operation, lane, (), number))

    def _step(self, operation: str, lane: str, *sources: _Step) -> _Step:
        key = operation, lane, sources
        return self._computed.setdefault(key, _Step(operation, lane, sources))

    def _value(self, node: ast.expr, lane: str = "") -> _Step:
        """What an expression makes; `lane` is for numbers, which have no type of their own."""
        match node:
            case ast.Name(name):
                return self._loads[OPERANDS.index(name)]
            case ast.Constant(int() | float() as number):
                return self._constant(lane, number)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return self._constant(lane, -number)
            case ast.UnaryOp(ast.USub(), operand):
                return self._apply("neg", operand)
            case ast.BinOp(lhs, symbol, rhs):
                return self._apply(_SYMBOLS[type(symbol)], lhs, rhs)
            case ast.Compare(lhs, [ast.Gt() | ast.GtE() as symbol], [rhs]):
                return self._apply(_SYMBOLS[type(symbol)], rhs, lhs)
            case ast.Compare(lhs, [symbol], [rhs]):
                return self._apply(_SYMBOLS[type(symbol)], lhs, rhs)
            case ast.IfExp(test, then, otherwise):
                return self._select(test, then, otherwise, lane)
            case ast.Call(ast.Name(name), [operand]) if name in _CONSTANTS:
                return self._convert(self._value(operand), name)
            case ast.Call(ast.Name(name), operands):
                return self._apply(name, *operands)
        raise AssertionError(f"{ast.unparse(node)} is not of this language")

    def _apply(self, name: str, *nodes: ast.expr) -> _Step:
        sources = self._values(nodes, "")
        lane = sources[0].lane
        operation = _find([f"{name}_{lane}", f"{name}_{_SIGNED.get(lane)}"])
        return self._step(operation, "int" if name in _COMPARISONS else lane, *sources)

    def _select(self, test: ast.expr, then: ast.expr, otherwise: ast.expr, lane: str) -> _Step:
        values = self._values([then, otherwise], lane)
        return self._step(
            f"select_{32 * values[0].size}", values[0].lane, self._value(test), *values
        )

    def _values(self, nodes: Sequence[ast.expr], lane: str) -> list[_Step]:
        """Values of one type; numbers are of that of the others, or of `lane`."""
        values = [None if _is_number(node) else self._value(node) for node in nodes]
        lane = next((value.lane for value in values if value), lane)
        typed = [
            value or self._value(node, lane) for value, node in zip(values, nodes, strict=True)
        ]
        assert {value.lane for value in typed} == {lane}, [ast.unparse(node) for node in nodes]
        return typed

    def _convert(self, value: _Step, lane: str) -> _Step:
        source, target = _SIGNED.get(value.lane, value.lane), _SIGNED.get(lane, lane)
        if source == target:
            return value
        names = [f"{one}_to_{other}" for one in (value.lane, source) for other in (lane, target)]
        return self._step(_find(names), lane, value)

    def _ready(self) -> list[_Step]:
        return [*self._constants.values(), *self._loads]

    def _allot(self, root: _Step) -> dict[_Step, int]:
        """Registers of all steps but the last; constants, loads and the result have theirs alone."""
        registers: dict[_Step, int] = {}
        end = 0
        for step in self._ready():
            registers[step] = end
            end += step.size
        own = end
        alive: list[_Step] = []
        computed = list(self._computed.values())
        last_use = {source: i for i, step in enumerate(computed) for source in step.sources}
        for i, step in enumerate(computed):
            taken = {registers[s] + part for s in alive for part in range(s.size)}
            at = end if step is root else own
            while any(at + part in taken for part in range(step.size)):
                at += 1
            registers[step] = at
            end = max(end, at + step.size)
            alive = [s for s in (*alive, step) if last_use.get(s, -1) > i]
        if end > NUM_REGISTERS:
            raise ValueError(f"it needs {end} registers, and there are {NUM_REGISTERS}")
        return registers


def _encode(step: _Step, registers: Mapping[_Step, int]) -> bytes:
    sources = [registers[source] for source in step.sources]
    a, b, c = [*sources, 0, 0, 0][:3]
    number = operation_numbers()[step.operation]
    head = struct.pack("<4BI", number, registers.get(step, 0), a, b, c)
    if not step.operation.startswith("constant"):
        return head + bytes(8)
    is_real = step.lane in ("float", "double")
    return head + struct.pack(
        _CONSTANTS[step.lane], step.number if is_real else int(step.number)
    ).ljust(8, b"\0")


def _find(operations: Sequence[str]) -> str:
    """The first of these operations that the firmware has."""
    return next(name for name in operations if name in operation_numbers())


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)
