"""Patterns: what a part of a graph looks like, from its last op up to what it reads.

    Match("MUL", Any("x"), Match("LOGISTIC", Any("x"), uses=1), name="mul")

is an op MUL one of whose inputs is the sigmoid of the other, and nobody else reads that sigmoid. What has a name
is handed to whoever rewrites it. The same name twice, or the same object, is the same place in the graph, so that
a pattern can be any acyclic graph with one last op.

The Model Optimizer's `pattern()` is a list of named nodes with attributes, and a list of edges: here the nodes are
`Match`, the edges their nesting, and a node that two edges leave is named twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import EllipsisType
from typing import TypeAlias

from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.node_attributes import ENDS
from compiler_plugin.transformations.op_request import did_you_mean
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.builtin_options import BUILTIN_NUMBERS, find_options_type

COMMUTATIVE = frozenset(
    {
        "ADD", "BITWISE_XOR", "EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL",
        "NOT_EQUAL", "SQUARED_DIFFERENCE", "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_MAXIMUM",
        "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY", "STABLEHLO_OR",
    }
)  # fmt: skip
"""Ops whose two inputs a pattern finds in either order."""

_RESERVED = ("self", "graph")


@dataclass(frozen=True, slots=True)
class Between:
    """Numbers from `low` to `high`, both included: for attributes and constants."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(eq=False, repr=False, slots=True)
class Any:
    """Whatever an input reads; handed on as the output port that is read.

    Attributes:
      name: to hand it on by; "" for what nobody needs.
      where: a condition on the port.
      optional: whether the input may be left out; what is handed on is then None.
    """

    name: str = ""
    _: KW_ONLY
    where: Callable[[OutPort], object] | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        _check_part(self.name, self.where)

    def __repr__(self) -> str:
        return f"Any({self.name!r})" if self.name else "Any()"


@dataclass(eq=False, repr=False, slots=True)
class Const:
    """Constant data; handed on as the `Const` node. Data are read only once all else of the pattern fits.

    Attributes:
      name: to hand it on by; "" for what nobody needs.
      value: a number, which each element is within 1e-6 of its size; a list, tuple or array of them, of the same
        shape; a `range` or `Between` that each element is in; or a condition on the array. Integers that stand
        for other numbers (quantized) are none of these, but for a condition.
      shape: with None for any size; or a condition on the shape. Ones of shape (4,) can broadcast: name the
        shape where the result's matters.
      where: a condition on the node.
      optional: whether the input may be left out; what is handed on is then None.
    """

    name: str = ""
    value: object = None
    _: KW_ONLY
    shape: Sequence[int | None] | Callable[[tuple[int, ...]], object] | None = None
    where: Callable[[Node], object] | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        _check_part(self.name, self.where)

    def __repr__(self) -> str:
        parts = [repr(self.name)] if self.name else []
        if self.value is not None:
            parts.append(f"value={self.value!r}")
        return f"Const({', '.join(parts)})"


class Match:
    """An op, and what it reads; handed on as its node.

    Attributes:
      ops: the names of the op, one of which it has.
      inputs: a pattern for each input; None for one that is left out, `...` (once) for any number of inputs. None
        at all: they are not looked at. Inputs that are left out at the end need no pattern.
      name: to hand it on by; "" for what nobody needs.
      output: which of the op's outputs the reader above reads; None for any.
      uses: how many inputs (results of the model among them) read its outputs: a number, or a `range`. Where it is
        not given an op may have readers outside the pattern, and then stays when the last op is replaced.
      where: a condition on the node.
      attributes: of the op: a value (floats within 1e-6 of its size), a `range` or `Between`, a tuple of these of
        which one holds, or a condition on the value. An enum's value is its name in the schema. An
        attribute that is not named here may be anything, `fused_activation_function` too.
    """

    __slots__ = ("attributes", "inputs", "name", "ops", "output", "uses", "where")

    def __init__(
        self,
        op: str | Sequence[str],
        *inputs: Pattern | EllipsisType | None,
        name: str = "",
        output: int = 0,
        uses: int | range | None = None,
        where: Callable[[Node], object] | None = None,
        **attributes: object,
    ) -> None:
        """Makes a pattern.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for what can be no pattern: no op, an operator or attribute that the
            schema does not have but nearly, an input that is none.
        """
        _check_part(name, where)
        self.ops = _checked_ops(op)
        self.inputs = inputs
        self.name = name
        self.output: int | None = output
        self.uses = uses
        self.where = where
        self.attributes: Mapping[str, object] = attributes
        if sum(1 for i in inputs if i is ...) > 1:
            raise _bad(f"{self} has '...' more than once among its inputs")
        for entry in inputs:
            if (
                entry is not None
                and entry is not ...
                and not isinstance(entry, Match | Any | Const)
            ):
                raise _bad(
                    f"{self}: {entry!r} is no input",
                    "Use Match, Any or Const, None for an input that is left out, or ... for all others.",
                )
        if isinstance(uses, bool) or not (
            uses is None or isinstance(uses, range) or (isinstance(uses, int) and uses >= 0)
        ):
            raise _bad(f"{self}: uses={uses!r} is neither a number of readers nor a range")
        if isinstance(output, bool) or not isinstance(output, int) or output < 0:
            raise _bad(f"{self}: output={output!r} is no number of an output")
        _check_attributes(self)

    def find_orders(self, op: str, ports: Sequence[OutPort | None]) -> Sequence[Order]:
        """The patterns of an op's inputs, each with what it is to be, in each order that they may have.

        Inputs that are missing at the end are left out.

        Args:
          op: that the op is, one of `ops`.
          ports: that its inputs read.
        """
        head: list[Pattern | None] = []
        tail: list[Pattern | None] = []
        is_open = False
        for entry in self.inputs:
            if entry is ...:
                is_open = True
            else:
                (tail if is_open else head).append(entry)
        if tail and len(ports) < len(head) + len(tail):
            return ()
        if not is_open and any(port is not None for port in ports[len(head) :]):
            return ()
        padded = [*ports, *[None] * (len(head) - len(ports))]
        pairs = list(zip(head, padded, strict=False))
        if is_open:
            return [pairs + list(zip(tail, ports[len(ports) - len(tail) :], strict=True))]
        if len(pairs) == len(ports) == 2 and op in COMMUTATIVE and ports[0] != ports[1]:
            (first, left), (second, right) = pairs
            return [pairs, [(first, right), (second, left)]]
        return [pairs]

    def __repr__(self) -> str:
        ops = repr(self.ops[0]) if len(self.ops) == 1 else repr(self.ops)
        return f"Match({ops}, name={self.name!r})" if self.name else f"Match({ops})"


Pattern: TypeAlias = Match | Any | Const
Order: TypeAlias = Sequence[tuple[Pattern | None, OutPort | None]]


def check_pattern(root: object) -> Mapping[str, Pattern]:
    """Checks a whole pattern, whose root is its last op; gives the parts that have names."""
    if not isinstance(root, Match):
        shown = "a function" if callable(root) else repr(root)
        raise _bad(
            f"{shown} is no pattern", "A pattern is a Match: the last op, with what it reads."
        )
    if any(op in ENDS for op in root.ops):
        raise _bad(f"{root} is no op that could be replaced", "Let the pattern end in an op.")
    if root.output:
        raise _bad(f"{root} is the last op, and its output {root.output} feeds nothing of it")
    named: dict[str, Pattern] = {}
    for pattern in walk(root):
        if not pattern.name:
            continue
        first = named.setdefault(pattern.name, pattern)
        if type(first) is not type(pattern):
            raise _bad(f"'{pattern.name}' names both {first} and {pattern}", "Rename one of them.")
        if isinstance(first, Match) and isinstance(pattern, Match):
            if not set(first.ops) & set(pattern.ops):
                raise _bad(
                    f"'{pattern.name}' names both {first} and {pattern}, and no op is both",
                    "Rename one of them.",
                )
            if pattern is not first and first is root:
                raise _bad(f"{root} would read itself", "Rename one of them.")
    return named


def walk(root: Pattern) -> Iterator[Pattern]:
    """All parts of a pattern, each object once, a reader before what it reads."""
    seen: set[int] = set()
    waiting: list[Pattern] = [root]
    while waiting:
        pattern = waiting.pop()
        if id(pattern) in seen:
            continue
        seen.add(id(pattern))
        yield pattern
        if isinstance(pattern, Match):
            waiting.extend(
                entry
                for entry in reversed(pattern.inputs)
                if entry is not None and entry is not ...
            )


def _checked_ops(op: str | Sequence[str]) -> tuple[str, ...]:
    ops = (op,) if isinstance(op, str) else tuple(op)
    if not ops or not all(isinstance(name, str) and name for name in ops):
        raise _bad(
            f"{op!r} names no op", "Name an operator (CONV_2D), a custom op, or a tuple of them."
        )
    for name in ops:
        if re.fullmatch("[A-Z][A-Z0-9_]*", name) and name not in BUILTIN_NUMBERS:
            hint = did_you_mean(name, BUILTIN_NUMBERS, 0.85)  # others may be custom ops
            if hint:
                raise _bad(f"the schema has no operator '{name}'", hint)
    return ops


def _check_attributes(pattern: Match) -> None:
    """Refuses what looks like a field of the op's options with a slip; other names are free attributes."""
    if not pattern.attributes:
        return
    from litert.model.schema import ENUMS
    from litert.model.schema_types import table_schema

    types = [found[1] for op in pattern.ops if (found := find_options_type(op)) is not None]
    fields = {name: field for t in types for name, field in table_schema(t).fields.items()}
    for name, wanted in pattern.attributes.items():
        if name not in fields:
            hint = did_you_mean(name, fields, 0.8)
            if hint:
                raise _bad(f"{pattern} has no attribute '{name}'", hint)
            continue
        names = list(ENUMS.get(fields[name].type_name, {}).values())
        for value in wanted if isinstance(wanted, tuple) else (wanted,):
            if names and isinstance(value, str) and value not in names:
                known = ", ".join(names)
                raise _bad(f"{pattern}: {name} is never {value!r}", f"It is one of {known}.")


def _check_part(name: str, where: object) -> None:
    """Refuses what is no name and no condition of a part of a pattern."""
    if not isinstance(name, str):
        raise _bad(
            f"a {type(name).__name__} is no name for a part of a pattern",
            "A constant of the graph is made by graph.create_const(value).",
        )
    if name and (not name.isidentifier() or name in _RESERVED):
        raise _bad(
            f"{name!r} is no name for a part of a pattern", "Use a name that a parameter can have."
        )
    if where is not None and not callable(where):
        raise _bad(f"where={where!r} cannot be called", "Pass a function that says yes or no.")


def _bad(what: str, hint: str = "") -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, what, "pattern", hint)
