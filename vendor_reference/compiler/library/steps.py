"""Compiles an expression to a program for the firmware's element-wise instruction.

    min(6, max(0, a + b))
    x = a + b; x * logistic(x)

An expression has Python's syntax. The operands are `a` to `h`. The value of a comparison is 0 or 1. `float(a)`
converts to float. All other functions are operations of the firmware; their names are the firmware's names without
the type.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from litert.core.counts import list_text
from litert.core.element_type import ElementType
from vendor_reference.firmware.operations import NUM_REGISTERS, operation_numbers

OPERANDS = "abcdefgh"

_E = ElementType

INTEGER_LIMITS: Mapping[ElementType, tuple[int, int]] = {
    _E.INT8: (-128, 127), _E.UINT8: (0, 255), _E.INT16: (-32768, 32767),
}  # fmt: skip
"""Least and greatest value of each quantized type."""

_LANES = {
    _E.FLOAT32: "float", _E.FLOAT16: "float", _E.FLOAT64: "double",
    _E.INT8: "int", _E.UINT8: "int", _E.BOOL: "int", _E.INT16: "int", _E.UINT16: "int",
    _E.INT32: "int", _E.UINT32: "uint", _E.INT64: "long", _E.UINT64: "ulong",
}  # fmt: skip
"""Names of the types that elements have inside a program."""

_STORED = {
    _E.FLOAT16: "half", _E.INT8: "char", _E.UINT8: "uchar", _E.BOOL: "uchar", _E.INT16: "short",
    _E.UINT16: "ushort",
}  # fmt: skip
"""Element types whose type in memory differs from their type inside a program."""

_CONSTANTS = {"float": "<f", "int": "<i", "uint": "<I", "long": "<q", "ulong": "<Q", "double": "<d"}
_WIDE = ("long", "ulong", "double")
_SIGNED = {"uint": "int", "ulong": "long"}
"""Types for which programs use the operations of another type."""

_SYMBOLS: Mapping[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Lt: "less", ast.LtE: "less_equal",
    ast.Gt: "less", ast.GtE: "less_equal", ast.Eq: "equal", ast.NotEq: "not_equal",
    ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
"""Names of the firmware's operations; `>` after a name means that the operands are swapped."""

_DIRECT = ("store_32", "store_64")
"""Operations that store elements without a conversion."""

_COMPARISONS = ("less", "less_equal", "equal", "not_equal")


@dataclass(frozen=True, slots=True)
class Scale:
    """The scale of quantized integers: an integer represents the number `scale * (integer - zero_point)`."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class Port:
    """A tensor that a program loads or stores.

    Attributes:
      scale: Scale of quantized integers; None if the tensor is not quantized.
    """

    element_type: ElementType
    scale: Scale | None = None

    @property
    def lane(self) -> str:
        """Returns the type of the tensor's elements inside a program."""
        return "float" if self.scale else _LANES[self.element_type]

    @property
    def memory(self) -> str:
        """Returns the suffix of the operations that load and store the tensor, for example `32` or `char`."""
        return _STORED.get(self.element_type) or str(self.element_type.bits)


def lane_of(element_type: ElementType) -> str:
    """Returns the type of elements inside a program: `float`, `int`, `uint`, `long`, `ulong` or `double`."""
    return _LANES[element_type]


def write_program(text: str, operands: Sequence[Port], result: Port) -> bytes:
    """Compiles an expression to a program, in the layout of the firmware's `Program`.

    Raises:
      ValueError: The text is not an expression of these operands, or needs too many registers.
    """
    try:
        return _Program(operands, result).write(parse_expression(text))
    except RecursionError:
        raise ValueError(f"'{text[:60]}' is nested too deep") from None


def parse_expression(text: str) -> Sequence[ast.stmt]:
    """Parses assignments followed by an expression; raises ValueError for any other text."""
    try:
        *named, last = ast.parse(text).body
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"'{text[:60]}' is not an expression") from None
    is_name = [isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) for s in named]
    if not all(is_name) or not isinstance(last, ast.Expr):
        raise ValueError(f"'{text[:60]}' is not an expression")
    return [*named, last]


@lru_cache(4096)
def rename(text: str, operands: tuple[str, ...], prefix: str) -> Sequence[str]:
    """Returns the statements of an expression in which new names, `operands`, replace the names of the operands.

    The names that the expression defines get the prefix `prefix`.
    """
    statements = parse_expression(text)
    nodes = [node for statement in statements for node in ast.walk(statement)]
    names = dict(zip(OPERANDS, operands, strict=False))
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names[node.id] = prefix + node.id
    for node in nodes:
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
    return [ast.unparse(statement) for statement in statements]


@dataclass(eq=False, frozen=True, slots=True)
class _Step:
    """A step of a program, and its result.

    Attributes:
      lane: Type of the result's elements: `float`, `int`, `uint`, `long`, `ulong` or `double`.
      number: Value of a constant.
    """

    operation: str
    lane: str
    sources: tuple[_Step, ...] = ()
    number: float = 0

    @property
    def size(self) -> int:
        """Returns the number of registers that the result fills."""
        return 2 if self.lane in _WIDE else 1


class _Program:
    """Builds a program; equal steps are stored once."""

    def __init__(self, operands: Sequence[Port], result: Port) -> None:
        self._constants: dict[tuple[str, float], _Step] = {}
        self._loads = [self._load(operand) for operand in operands]
        self._names = dict(zip(OPERANDS, self._loads, strict=False))
        self._computed: dict[tuple[str, str, tuple[_Step, ...]], _Step] = {}
        self._result = result

    def write(self, statements: Sequence[ast.stmt]) -> bytes:
        root = self._root(statements)
        if _SIGNED.get(root.lane, root.lane) != _SIGNED.get(self._result.lane, self._result.lane):
            raise ValueError(
                f"the expression has type {root.lane}, but the result has type {self._result.lane}"
            )
        store = self._store(root)
        steps = [*self._ready(), *self._computed.values(), store]
        registers = self._allot(root)
        is_direct = [*self._computed.values()][-1:] == [root] and store.operation in _DIRECT
        direct = registers[root] if is_direct else NUM_REGISTERS
        head = struct.pack("<4I", len(self._constants), len(self._loads), len(steps), direct)
        return head + b"".join(_encode(step, registers) for step in steps)

    def _root(self, statements: Sequence[ast.stmt]) -> _Step:
        *named, last = statements
        for statement in named:
            assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            self._names[statement.targets[0].id] = self._value(statement.value)
        assert isinstance(last, ast.Expr)
        return self._value(last.value, self._result.lane)

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
        try:
            _pack(lane, number)
        except (struct.error, OverflowError, ValueError):
            raise ValueError(f"the number {number!r:.60} does not fit type {lane}") from None
        operation = "constant_64" if lane in _WIDE else "constant"
        return self._constants.setdefault((lane, number), _Step(operation, lane, (), number))

    def _step(self, operation: str, lane: str, *sources: _Step) -> _Step:
        key = operation, lane, sources
        return self._computed.setdefault(key, _Step(operation, lane, sources))

    def _value(self, node: ast.expr, lane: str = "") -> _Step:
        """Returns the step for an expression.

        `lane` is the type of number literals, which have no type of their own.
        """
        match node:
            case ast.Name(name) if name in self._names:
                return self._names[name]
            case ast.Constant(int() | float() as number) if lane:
                return self._constant(lane, number)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)) if lane:
                return self._constant(lane, -number)
            case ast.UnaryOp(ast.USub(), operand):
                return self._apply("neg", operand)
            case ast.BinOp(lhs, symbol, rhs) if type(symbol) in _SYMBOLS:
                return self._apply(_SYMBOLS[type(symbol)], lhs, rhs)
            case ast.Compare(lhs, [ast.Gt() | ast.GtE() as symbol], [rhs]):
                return self._apply(_SYMBOLS[type(symbol)], rhs, lhs)
            case ast.Compare(lhs, [symbol], [rhs]) if type(symbol) in _SYMBOLS:
                return self._apply(_SYMBOLS[type(symbol)], lhs, rhs)
            case ast.IfExp(test, then, otherwise):
                return self._select(test, then, otherwise, lane)
            case ast.Call(ast.Name(name), [operand]) if name in _CONSTANTS:
                return self._convert(self._value(operand), name)
            case ast.Call(ast.Name(name), operands) if operands:
                return self._apply(name, *operands)
        known = list_text("operand", list(self._names))
        raise ValueError(f"'{ast.unparse(node)[:60]}' is not a valid expression with the {known}")

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
        """Returns values of one type; numbers get the type of the other values, or `lane`."""
        values = [None if _is_number(node) else self._value(node) for node in nodes]
        lane = next((value.lane for value in values if value), lane)
        typed = [
            value or self._value(node, lane) for value, node in zip(values, nodes, strict=True)
        ]
        if {value.lane for value in typed} != {lane}:
            raise ValueError(
                f"'{ast.unparse(nodes[0])[:60]}' and another operand of the operation have different types"
            )
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
        """Assigns registers to all steps but the last.

        Constants, loads and the result have registers of their own.
        """
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
            raise ValueError(f"the expression needs {end} registers, but there are {NUM_REGISTERS}")
        return registers


def _encode(step: _Step, registers: Mapping[_Step, int]) -> bytes:
    sources = [registers[source] for source in step.sources]
    a, b, c = [*sources, 0, 0, 0][:3]
    number = operation_numbers()[step.operation]
    head = struct.pack("<4BI", number, registers.get(step, 0), a, b, c)
    is_constant = step.operation.startswith("constant")
    return head + (_pack(step.lane, step.number) if is_constant else b"").ljust(8, b"\0")


def _pack(lane: str, number: float) -> bytes:
    is_real = lane in ("float", "double")
    return struct.pack(_CONSTANTS[lane], number if is_real else int(number))


def _find(operations: Sequence[str]) -> str:
    """Returns the first of these operations that the firmware has."""
    for name in operations:
        if name in operation_numbers():
            return name
    raise ValueError(f"the firmware has no operation '{operations[0]}'")


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant)
