"""Computes and checks the shapes of one loaded function in its runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import le

from litert.core.errors import LiteRtError
from litert.core.sizes import Size, evaluate, shapes_in
from litert.core.status import Status
from vendor_reference.device.size_program import SizeProgram, compile_sizes
from vendor_reference.executable.executable import (
    CpuTask,
    Function,
    ShapeKind,
    ShapeValue,
    format_shape,
)
from vendor_reference.executable.shape_use import BEFORE_ALL, find_times

Shape = tuple[int, ...]

_MOST_KEPT = 16
"""Maximum number of combinations of input shapes for which the computed shapes are kept."""


class RunShapes:
    """Current shapes of a function.

    Callers set the input shapes. Formulas, CPU layers and kernels determine all other shapes of the function.
    """

    def __init__(self, function: Function, ask: Callable[[ShapeValue], Sequence[int]]) -> None:
        """Sets the shape of each dynamic input to its bound; callers may set smaller shapes later.

        `ask` is called for each shape that the library of a CPU layer computes.
        """
        self._function = function
        self._where = f"function '{function.name}'"
        self._ask = ask
        self._shapes = function.shapes
        self._times = find_times(function)
        self._inputs = {
            shape.index: index
            for index, shape in enumerate(self._shapes)
            if shape.kind is ShapeKind.INPUT
        }
        self._ahead = _ShapesAhead(self._shapes, self._times)
        self._others = [  # shapes that depend on more than input shapes
            index
            for index, shape in enumerate(self._shapes)
            if shape.kind is not ShapeKind.INPUT and index not in self._ahead.indices
        ]
        self._values: list[Shape | None] = [None] * len(self._shapes)
        for index in self._inputs.values():
            self._values[index] = self._shapes[index].bound

    def __getitem__(self, index: int) -> Shape:
        """Returns the shape with the given index, which must be known already."""
        value = self._values[index]
        assert value is not None
        return value

    def is_known(self, index: int) -> bool:
        """Whether the value of the shape is known."""
        return self._values[index] is not None

    def input_shape(self, index: int) -> Shape | None:
        """Returns the shape that is set for input `index`; None if the input's shape is fixed."""
        found = self._inputs.get(index)
        return None if found is None else self[found]

    def set_input(self, index: int, shape: Sequence[int]) -> bool:
        """Sets the shape of input `index`, which must be dynamic; returns whether the shape has changed.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if the shape does not fit the model or exceeds its bound.
        """
        number = self._inputs[index]
        value = self._shapes[number]
        what = f"input {index} '{value.name}' of shape {format_shape(shape)}"
        _check(value, tuple(shape), what, "")
        is_new = self._values[number] != tuple(shape)
        self._values[number] = tuple(shape)
        return is_new

    def find_ahead(self, index: int) -> Shape | None:
        """Returns a shape that can be computed from the input shapes before a run.

        Returns None if the shape is known only during a run.

        If no run is possible with the current input shapes, returns the largest allowed shape; the next run then
        reports the error.
        """
        if self._times[index] != BEFORE_ALL:
            return None
        found = self._ahead.find(self.__getitem__).get(index)
        if found is not None:
            return found
        before = list(self._values)
        try:
            self.forget()
            self.compute(BEFORE_ALL)
            return self._values[index]
        except LiteRtError:
            return self._shapes[index].bound
        finally:
            self._values = before

    def forget(self) -> None:
        """Forgets all shapes except the input shapes; called at the start of a run."""
        for index, shape in enumerate(self._shapes):
            if shape.kind is not ShapeKind.INPUT:
                self._values[index] = None

    def compute(self, task: int) -> list[int]:
        """Computes the shapes that become known after the given task.

        Task -1 stands for the time before the first task.

        Returns:
          The indices of the shapes that were computed.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a formula has no value, or if its value does not fit the model. If a
            CPU layer's library reports an error, the `LiteRtError` has the library's status.
        """
        computed: list[int] = []
        open_ones: Sequence[int] = self._others
        if task == BEFORE_ALL:
            found = self._ahead.find(self.__getitem__)
            computed += found
            for index, value in found.items():
                self._values[index] = value
            if not found:
                open_ones = range(len(self._shapes))
        for index in open_ones:
            shape = self._shapes[index]
            is_found = shape.kind in (ShapeKind.COMPUTED, ShapeKind.ASKED)
            if is_found and self._times[index] <= task and self._values[index] is None:
                self._values[index] = self._find(shape)
                computed.append(index)
        return computed

    def _find(self, shape: ShapeValue) -> Shape:
        if shape.kind is ShapeKind.ASKED:
            value = tuple(self._ask(shape))
            task = self._function.tasks[shape.index]
            assert isinstance(task, CpuTask)
            what = (
                f"the shape {format_shape(value)} that {task.asset.file_name} computes for tensor "
                f"'{shape.name}'"
            )
            _check(shape, value, what, f"op '{task.op_name}', {self._where}")
            return value
        where = f"the shape of tensor '{shape.name}', {self._where}"
        value = tuple(evaluate(size, self.__getitem__, where) for size in shape.sizes)
        what = f"the shape {format_shape(value)} that the formulas give for tensor '{shape.name}'"
        _check(shape, value, what, self._where)
        return value

    def set_written(self, index: int, numbers: Sequence[int]) -> None:
        """Checks and sets a shape that a kernel has written.

        Raises:
          LiteRtError: RUNTIME_FAILURE, if the kernel has not written the shape, or if the written shape is not
            valid.
        """
        shape = self._shapes[index]
        task = self._function.tasks[shape.index]
        where = f"kernel '{task.entry}' of op '{task.op_name}', {self._where}"
        if tuple(numbers) == NOT_WRITTEN * len(shape.pattern):
            raise LiteRtError(
                Status.RUNTIME_FAILURE, f"the kernel has not written the shape of tensor '{shape.name}'", where,
                "Let one work item of the kernel write all dimensions of the shape.",
            )  # fmt: skip
        what = f"the shape {format_shape(numbers)} that the kernel has written for tensor '{shape.name}'"
        _check(shape, tuple(numbers), what, where, Status.RUNTIME_FAILURE)
        self._values[index] = tuple(numbers)


class _ShapesAhead:
    """Computes all shapes that depend on the input shapes alone, with one program; caches the latest results.

    Attributes:
      indices: Indices of the shapes that this object computes.
    """

    def __init__(self, shapes: Sequence[ShapeValue], times: Sequence[int]) -> None:
        self._inputs = [i for i, shape in enumerate(shapes) if shape.kind is ShapeKind.INPUT]
        self._sizes: dict[int, Sequence[Size]] = {}
        for index, shape in enumerate(shapes):
            is_computed = shape.kind is ShapeKind.COMPUTED and times[index] == BEFORE_ALL
            sources = {d.shape for size in shape.sizes for d in shapes_in(size)}
            if is_computed and sources <= {*self._inputs, *self._sizes}:
                self._sizes[index] = shape.sizes
        checked = [shapes[index] for index in self._sizes]
        self._bounds = [most for shape in checked for most in shape.bound]
        self._fixed = [
            (i, n) for i, n in enumerate(p for s in checked for p in s.pattern) if n >= 0
        ]
        self._program: SizeProgram | None = None
        self.indices: Collection[int] = self._sizes.keys()
        self._find = lru_cache(_MOST_KEPT)(self._compute)

    def find(self, shapes: Callable[[int], Shape]) -> Mapping[int, Shape]:
        """Returns the shapes by index.

        Empty if a shape is invalid, since computing that shape alone reports the error.
        """
        return self._find(tuple(map(shapes, self._inputs)))

    def _compute(self, inputs: tuple[Shape, ...]) -> Mapping[int, Shape]:
        shapes = dict(zip(self._inputs, inputs, strict=True))
        if self._program is None:
            sizes = [size for shape in self._sizes.values() for size in shape]
            self._program = compile_sizes(sizes, self._sizes)
        try:
            numbers = self._program(shapes.__getitem__)
        except (ArithmeticError, ValueError):
            return {}
        is_bounded = all(map(le, numbers, self._bounds)) and min(numbers, default=0) >= 0
        if not is_bounded or any(numbers[index] != n for index, n in self._fixed):
            return {}
        rest = iter(numbers)
        return {index: tuple(islice(rest, len(s))) for index, s in self._sizes.items()}


NOT_WRITTEN = (2**32 - 1,)
"""Value in memory which shows that no kernel has written a dimension yet."""


def _check(
    shape: ShapeValue,
    value: Shape,
    what: str,
    where: str,
    status: Status = Status.INVALID_ARGUMENT,
) -> None:
    pattern = shape.pattern
    if len(value) != len(pattern) or any(
        p not in (-1, d) or d < 0 for p, d in zip(pattern, value, strict=True)
    ):
        raise LiteRtError(
            status,
            f"{what} does not fit the shape {format_shape(pattern)} in the compiled model",
            where,
        )
    if any(d > most for d, most in zip(value, shape.bound, strict=True)):
        bound = format_shape(shape.bound)
        larger = format_shape(tuple(map(max, value, shape.bound)))
        hint = f"Compile the model for larger shapes: --shape_bounds={shape.name}:{larger}."
        if status is not Status.INVALID_ARGUMENT:
            hint = (
                "If the kernel has written a wrong shape, correct the kernel. If the shape is right, compile "
                "the model with a larger --shape_bounds."
            )
        raise LiteRtError(
            status,
            f"{what} exceeds the largest shape {bound} for which the model was compiled",
            where,
            hint,
        )
