"""What an earlier report of coverage said of the same models, and whether anything has become worse since.

A model is worse if an op has left the NPU; if there are more NPU calls, and ops that were in one call are in
several now; or if its coverage could be found out before, and now cannot. More calls alone are not worse, since
further ops on the NPU can bring them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import basename
from typing import TypeAlias, TypeVar

from litert.analysis.coverage import Coverage, ModelCoverage
from litert.analysis.op_coverage import OpCoverage
from litert.core.checked_json import JsonNode
from litert.core.codec import ANY_TEXT, array, integer, record
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import MappedFile


@dataclass(frozen=True, slots=True)
class EarlierOp:
    """What an earlier report says of an op; as in `OpCoverage`."""

    subgraph: int
    index: int
    name: str
    composite: str
    output: str
    call: str


@dataclass(frozen=True, slots=True)
class EarlierModel:
    """What an earlier report says of a model; as in `ModelCoverage`."""

    path: str
    problem: str
    num_calls: int
    ops: Sequence[EarlierOp]


@dataclass(frozen=True, slots=True)
class EarlierReport:
    """What is read of an earlier report; as in `Coverage`."""

    soc_manufacturer: str
    soc_model: str
    plugin_sdk_version: str
    sdk_version: str
    models: Sequence[EarlierModel]


@dataclass(frozen=True, slots=True)
class OpMove:
    """An op that has left the NPU, or has come to it; in part, where only parts of a composite have.

    Attributes:
      subgraph, index, name, output: as in `OpCoverage`; the name is that of the composite for one.
      reason: why it is on the CPU now; "" for an op that came.
    """

    subgraph: int
    index: int
    name: str
    output: str
    reason: str


@dataclass(frozen=True, slots=True)
class CallSplit:
    """A former NPU call whose ops are in several calls now.

    Attributes:
      call: its name in the earlier report.
      calls: the names of those that have its ops now.
    """

    call: str
    calls: Sequence[str]


@dataclass(frozen=True, slots=True)
class ModelChange:
    """What has become different for one model.

    Attributes:
      path: of the model.
      problem: why it cannot be compared; "" where it can.
      is_worse: whether anything has become worse.
      had_problem, has_problem: whether its coverage could not be found out, before and now; then nothing is
        compared.
      num_calls_before, num_calls: of the NPU, in the earlier report and now.
      left: ops that have left the NPU.
      came: ops that have come to it.
      splits: former calls whose ops are in several calls now.
    """

    path: str
    problem: str = ""
    is_worse: bool = False
    had_problem: bool = False
    has_problem: bool = False
    num_calls_before: int = 0
    num_calls: int = 0
    left: Sequence[OpMove] = ()
    came: Sequence[OpMove] = ()
    splits: Sequence[CallSplit] = ()

    @property
    def is_same(self) -> bool:
        """Whether nothing is different."""
        has_problem = self.problem or self.had_problem or self.has_problem
        has_change = self.left or self.came or self.splits
        return not (has_problem or has_change) and self.num_calls == self.num_calls_before


@dataclass(frozen=True, slots=True)
class CoverageChange:
    """What has become different since an earlier report.

    Attributes:
      path: of the earlier report.
      soc_manufacturer, soc_model, plugin_sdk_version, sdk_version: of the earlier report.
      is_worse: whether anything has become worse for any model.
      models: those that both have.
      new: paths of models that the earlier report does not have.
      missing: paths of models that only the earlier report has.
    """

    path: str
    soc_manufacturer: str
    soc_model: str
    plugin_sdk_version: str
    sdk_version: str
    is_worse: bool
    models: Sequence[ModelChange]
    new: Sequence[str]
    missing: Sequence[str]


_Model = TypeVar("_Model", EarlierModel, ModelCoverage)
_Op = TypeVar("_Op", EarlierOp, OpCoverage)
_Place: TypeAlias = tuple[int, int, str]
"""Subgraph and index in the file; and the output's name of an op that is not in it."""

_INDEX = integer(-1, 2**31)
_OP = record(
    EarlierOp,
    is_open=True,
    subgraph=_INDEX,
    index=_INDEX,
    name=ANY_TEXT,
    composite=ANY_TEXT,
    output=ANY_TEXT,
    call=ANY_TEXT,
)
_MODEL = record(
    EarlierModel,
    is_open=True,
    path=ANY_TEXT,
    problem=ANY_TEXT,
    num_calls=integer(0, 2**31),
    ops=array(_OP),
)
_REPORT = record(
    EarlierReport,
    is_open=True,
    soc_manufacturer=ANY_TEXT,
    soc_model=ANY_TEXT,
    plugin_sdk_version=ANY_TEXT,
    sdk_version=ANY_TEXT,
    models=array(_MODEL),
)


def read_earlier_report(path: str) -> EarlierReport:
    """Reads a report that `litert-npu coverage --report=json` has printed.

    Raises:
      LiteRtError: NOT_FOUND or FILE_IO; INVALID_ARGUMENT, for a file that is no such report.
    """
    with MappedFile(path) as file:
        try:
            return _REPORT.read(JsonNode.parse(file.view, path, Status.INVALID_ARGUMENT))
        except LiteRtError as error:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"not a report of litert-npu coverage: {error.what}",
                error.where,
                "Make it with --report=json, and with this version or a later one.",
            ) from error


def find_change(path: str, earlier: EarlierReport, coverage: Coverage) -> CoverageChange:
    """Compares what is found now with an earlier report, which is of `path`."""
    pairs = _pair_models(earlier.models, coverage.models)
    changes = [_change(before, now) for before, now in pairs]
    before_paths = {before.path for before, _ in pairs}
    now_paths = {now.path for _, now in pairs}
    return CoverageChange(
        path,
        earlier.soc_manufacturer,
        earlier.soc_model,
        earlier.plugin_sdk_version,
        earlier.sdk_version,
        any(change.is_worse for change in changes),
        changes,
        [model.path for model in coverage.models if model.path not in now_paths],
        [model.path for model in earlier.models if model.path not in before_paths],
    )


def _pair_models(
    before: Sequence[EarlierModel], now: Sequence[ModelCoverage]
) -> list[tuple[EarlierModel, ModelCoverage]]:
    """Models of one path; of the others, those whose file names are alike and not ambiguous."""
    by_path = {model.path: model for model in before}
    now_paths = {model.path for model in now}
    by_name = _only_ones(model for model in before if model.path not in now_paths)
    now_by_name = _only_ones(model for model in now if model.path not in by_path)
    pairs: list[tuple[EarlierModel, ModelCoverage]] = []
    for model in now:
        name = basename(model.path)
        partner = by_path.get(model.path)
        if partner is None and now_by_name.get(name) is model:
            partner = by_name.get(name)
        if partner is not None:
            pairs.append((partner, model))
    return pairs


def _only_ones(models: Iterable[_Model]) -> dict[str, _Model]:
    """Models by their file names, without names that several have."""
    by_name: dict[str, list[_Model]] = {}
    for model in models:
        by_name.setdefault(basename(model.path), []).append(model)
    return {name: found[0] for name, found in by_name.items() if len(found) == 1}


def _change(before: EarlierModel, now: ModelCoverage) -> ModelChange:
    had_problem, has_problem = bool(before.problem), bool(now.problem)
    if had_problem or has_problem:
        return ModelChange(
            now.path,
            is_worse=has_problem and not had_problem,
            had_problem=had_problem,
            has_problem=has_problem,
        )
    ops_before, ops_now = _by_place(before.ops), _by_place(now.ops)
    if problem := _find_other_model(ops_before, ops_now):
        return ModelChange(now.path, problem)
    moves = list(_moves(ops_before, ops_now))
    left = [move for move in moves if move.reason]
    splits = list(_splits(ops_before, ops_now))
    return ModelChange(
        now.path,
        is_worse=bool(left) or (bool(splits) and now.num_calls > before.num_calls),
        num_calls_before=before.num_calls,
        num_calls=now.num_calls,
        left=left,
        came=[move for move in moves if not move.reason],
        splits=splits,
    )


def _by_place(ops: Sequence[_Op]) -> dict[_Place, list[_Op]]:
    """Ops by their place in the file, parts of a composite together; others by their output's name."""
    found: dict[_Place, list[_Op]] = {}
    for op in ops:
        place = op.subgraph, op.index, op.output if op.index < 0 else ""
        found.setdefault(place, []).append(op)
    return found


def _name(ops: Sequence[_Op]) -> str:
    return ops[0].composite or ops[0].name


def _find_other_model(
    before: Mapping[_Place, Sequence[EarlierOp]], now: Mapping[_Place, Sequence[OpCoverage]]
) -> str:
    """Why ops cannot be of one model; "" if they can."""
    for place, ops in now.items():
        if place in before and _name(before[place]) != _name(ops):
            was, name = _name(before[place]), _name(ops)
            return f"it is another model: op {place[1]} of subgraph {place[0]} was {was}, and is {name}"
    if any(index < 0 for _, index, _ in (*before, *now)):
        return ""  # transformations have taken ops out, each time others perhaps
    # A decomposition of composites is there only as long as one of these is whole, and on the CPU.
    both = {place[0] for place in before} & {place[0] for place in now}
    for place in before.keys() ^ now.keys():
        if place[0] in both:
            there = "no more" if place in before else "only now"
            return f"it is another model: it has op {place[1]} of subgraph {place[0]} {there}"
    return ""


def _moves(
    before: Mapping[_Place, Sequence[EarlierOp]], now: Mapping[_Place, Sequence[OpCoverage]]
) -> Iterator[OpMove]:
    """Ops of which less is on the NPU than before, with a reason; and those of which more is, without."""
    for place, ops in now.items():
        if place not in before:
            continue
        share_before, share_now = _npu_share(before[place]), _npu_share(ops)
        if share_before != share_now:
            has_left = share_now < share_before
            reason = next(op.reason for op in ops if not op.call) if has_left else ""
            yield OpMove(place[0], place[1], _name(ops), ops[0].output, reason)


def _npu_share(ops: Sequence[_Op]) -> float:
    return sum(op.call != "" for op in ops) / len(ops)


def _splits(
    before: Mapping[_Place, Sequence[EarlierOp]], now: Mapping[_Place, Sequence[OpCoverage]]
) -> Iterator[CallSplit]:
    calls: dict[str, dict[str, None]] = {}
    for place, ops in before.items():
        own = {op.call for op in ops if op.call}
        if len(own) == 1:  # parts of a composite may be in several
            now_calls = (op.call for op in now.get(place, ()) if op.call)
            calls.setdefault(own.pop(), {}).update(dict.fromkeys(now_calls))
    for call, parts in calls.items():
        if len(parts) > 1:
            yield CallSplit(call, list(parts))
