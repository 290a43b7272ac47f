"""Patterns that describe a part of a graph, from the last op of the part back to its inputs.

    Match("MUL", Any("x"), Match("LOGISTIC", Any("x"), uses=1), name="mul")

This pattern matches an op MUL that multiplies a tensor `x` by the sigmoid of `x`, if no other op reads the
sigmoid. The function that rewrites the match gets each named part as an argument. Parts with the same name must
match the same node or port; so must an object that is used twice. A pattern can therefore be any acyclic graph
with one last op.

In the Model Optimizer, `pattern()` returns a list of named nodes with attributes and a list of edges. In this
project, nodes are `Match` objects, and nested objects replace edges; a node that two other nodes read appears
twice under one name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from types import EllipsisType
from typing import TypeAlias

from compiler_plugin.transformations.node import Node, OutPort
from compiler_plugin.transformations.node_attributes import ENDS
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.model.builtin_options import BUILTIN_NUMBERS, find_options_type

COMMUTATIVE = frozenset(
    {
        "ADD", "BITWISE_XOR", "EQUAL", "LOGICAL_AND", "LOGICAL_OR", "MAXIMUM", "MINIMUM", "MUL",
        "NOT_EQUAL", "SQUARED_DIFFERENCE", "STABLEHLO_ADD", "STABLEHLO_AND", "STABLEHLO_MAXIMUM",
        "STABLEHLO_MINIMUM", "STABLEHLO_MULTIPLY", "STABLEHLO_OR",
    }
)  # fmt: skip
"""Ops whose two inputs can be swapped; patterns match these inputs in either order."""

_RESERVED = ("self", "graph")


@dataclass(frozen=True, slots=True)
class Between:
    """Matches a number from `low` to `high`, both included, in an attribute or a constant."""

    low: float
    high: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.low <= value <= self.high


@dataclass(eq=False, repr=False, slots=True)
class Any:
    """Matches any input of an op; `rewrite` gets the output port that the input reads.

    Attributes:
      name: Name of the parameter of `rewrite` that gets the match; "" if `rewrite` does not need the match.
      where: Function that takes the port and returns whether the port matches.
      optional: Whether the op may lack this input; `rewrite` then gets None.
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
    """Matches a constant; `rewrite` gets the constant's node.

    The data of a constant are read only after all other parts of the pattern have matched.

    Attributes:
      name: Name of the parameter of `rewrite` that gets the match; "" if `rewrite` does not need the match.
      value: Condition on the elements. With a number, all elements must equal the number, with a relative
        tolerance of 1e-6. With a list, tuple or array, the constant must have the same elements and the same
        shape. With a `range` or `Between`, all elements must be in this range. A function takes the array and
        returns whether the array matches. A condition on quantized integers must be a function.
      shape: Shape of the constant, with None for a dimension of any size; or a function that takes the shape and
        returns whether the shape matches. Give the shape to exclude constants whose broadcasting would change the
        shape of the op's output.
      where: Function that takes the node and returns whether the node matches.
      optional: Whether the op may lack this input; `rewrite` then gets None.
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
    """Matches an op and its inputs; `rewrite` gets the op's node.

    Attributes:
      ops: Possible names of the op.
      inputs: A pattern for each input, or None for an input that the op lacks; `...` matches any number of inputs,
        and can be used once. Optional inputs that are omitted at the end need no entry. If `inputs` is empty, the
        op may have any inputs.
      name: Name of the parameter of `rewrite` that gets the match; "" if `rewrite` does not need the match.
      output: Index of the output that the enclosing pattern reads; None for any output.
      uses: Number of readers of the op's outputs, or a `range` of numbers; results of the model count as readers.
        If `uses` is None, ops outside the pattern may also read the op. An op with such readers is not removed
        when the last op of the pattern is replaced.
      where: Function that takes the node and returns whether the node matches.
      attributes: Conditions on the op's attributes, by name. A condition is a value, a `range`, a `Between`, or a
        tuple of alternatives; floats match with a relative tolerance of 1e-6. A condition can also be a function
        that takes the value and returns whether the value matches. Enum values are given by their names in the
        schema. Attributes without a condition, including `fused_activation_function`, can have any value.
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
        """Creates a pattern.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if `op` is not a name or tuple of names, the name of an operator or
            attribute is probably misspelled, or an input is not a pattern.
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
            raise _bad(f"{self} has '...' more than once among its inputs", "Keep only one '...'.")
        for entry in inputs:
            if (
                entry is not None
                and entry is not ...
                and not isinstance(entry, Match | Any | Const)
            ):
                raise _bad(
                    f"{self} has the input {entry!r:.100}, which is not a pattern",
                    "For each input, pass Match, Any or Const; or None for an omitted input, or ... for any "
                    "number of inputs.",
                )
        if isinstance(uses, bool) or not (
            uses is None or isinstance(uses, range) or (isinstance(uses, int) and uses >= 0)
        ):
            raise _bad(
                f"{self}: uses={uses!r:.100} is neither a number of readers nor a range",
                "Pass a whole number such as uses=1, or a range such as uses=range(1, 3).",
            )
        if isinstance(output, bool) or not isinstance(output, int) or output < 0:
            raise _bad(
                f"{self}: output={output!r:.100} is not the index of an output",
                "Pass a whole number, 0 or greater.",
            )
        _check_attributes(self)

    def find_orders(self, op: str, ports: Sequence[OutPort | None]) -> Sequence[Order]:
        """Returns all ways to pair the patterns of the inputs with the ports that an op's inputs read.

        There are two ways if the op's two inputs can be swapped, as for ADD. If the op has fewer inputs than
        patterns, the last patterns are paired with None.

        Args:
          op: Name of the op, one of the names in `ops`.
          ports: Output ports that are connected to the op's inputs, in the order of the inputs.
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
    """Checks the pattern that ends in the op `root`, and returns its named parts by name."""
    if not isinstance(root, Match):
        shown = "a function" if callable(root) else f"{root!r:.100}"
        raise _bad(
            f"the pattern must be a Match, but is {shown}",
            "Write a Match for the last op, with patterns for the op's inputs: Match('ADD', Any('x'), Const()).",
        )
    if any(op in ENDS for op in root.ops):
        raise _bad(
            f"the pattern ends with {root}, which is not an op and cannot be replaced",
            "End the pattern with an op.",
        )
    if root.output:
        raise _bad(
            f"{root} has output={root.output}, but it is the last op of the pattern, and no part of the pattern "
            "reads its outputs",
            f"Remove output={root.output}.",
        )
    named: dict[str, Pattern] = {}
    for pattern in walk(root):
        if not pattern.name:
            continue
        first = named.setdefault(pattern.name, pattern)
        if type(first) is not type(pattern):
            raise _bad(
                f"the name '{pattern.name}' stands for both {first} and {pattern}",
                "Rename one of these parts of the pattern.",
            )
        if isinstance(first, Match) and isinstance(pattern, Match):
            if not set(first.ops) & set(pattern.ops):
                raise _bad(
                    f"the name '{pattern.name}' stands for {first} and {pattern}, but no op matches "
                    "both",
                    "Rename one of these parts of the pattern.",
                )
            if pattern is not first and first is root:
                raise _bad(
                    f"two parts of the pattern have the name '{root.name}', so {root} would read itself",
                    "Rename one of these parts of the pattern.",
                )
    return named


def walk(root: Pattern) -> Iterator[Pattern]:
    """Yields each part of a pattern once; a `Match` comes before the patterns of its inputs."""
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
            f"{op!r:.100} is not the name of an op",
            "Pass the name of a builtin operator such as 'CONV_2D', the name of a custom op, or a tuple of names.",
        )
    for name in ops:
        if re.fullmatch("[A-Z][A-Z0-9_]*", name) and name not in BUILTIN_NUMBERS:
            hint = did_you_mean(name, BUILTIN_NUMBERS, similarity=0.85)  # others may be custom ops
            if hint:
                raise _bad(f"TFLite has no operator '{name}'", hint)
    return ops


def _check_attributes(pattern: Match) -> None:
    """Refuses attribute names that look like misspelled fields of the op's options; others are allowed."""
    if not pattern.attributes:
        return
    from litert.model.schema import ENUMS
    from litert.model.schema_types import table_schema

    types = [found[1] for op in pattern.ops if (found := find_options_type(op)) is not None]
    fields = {name: field for t in types for name, field in table_schema(t).fields.items()}
    for name, wanted in pattern.attributes.items():
        if name not in fields:
            hint = did_you_mean(name, fields, similarity=0.8)
            if hint:
                raise _bad(f"{pattern} has no attribute '{name}'", hint)
            continue
        names = list(ENUMS.get(fields[name].type_name, {}).values())
        for value in wanted if isinstance(wanted, tuple) else (wanted,):
            if names and isinstance(value, str) and value not in names:
                known = ", ".join(names)
                raise _bad(f"{pattern}: {name} cannot be {value!r}", f"Use one of {known}.")


def _check_part(name: str, where: object) -> None:
    """Refuses an invalid name or condition for a part of a pattern."""
    if not isinstance(name, str):
        raise _bad(
            f"the name of a part must be a string, but has type {type(name).__name__}",
            "To create a constant in the graph, call graph.create_const(value) instead.",
        )
    if name and (not name.isidentifier() or name in _RESERVED):
        raise _bad(
            f"{name!r:.100} cannot be the name of a part",
            "Choose a name that can be a parameter of a Python function, except self and graph.",
        )
    if where is not None and not callable(where):
        raise _bad(
            f"where={where!r:.100} is not a function",
            "Pass a function that takes a node and returns True or False.",
        )


def _bad(what: str, hint: str = "") -> LiteRtError:
    return LiteRtError(Status.INVALID_ARGUMENT, what, "in a pattern", hint)
