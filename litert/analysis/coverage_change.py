"""Compares the coverage of models with an earlier report, and decides whether a model has become worse.

A model is worse if an op has left the NPU, if a former NPU call is split and there are more calls, or if the model
could be analysed before and no longer can. A higher number of calls alone is not worse, since more ops on the NPU
may need more calls.
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
    """An op in an earlier report; see `OpCoverage`."""

    subgraph: int
    index: int
    name: str
    composite: str
    output: str
    call: str


@dataclass(frozen=True, slots=True)
class EarlierModel:
    """A model in an earlier report; see `ModelCoverage`."""

    path: str
    problem: str
    num_calls: int
    ops: Sequence[EarlierOp]


@dataclass(frozen=True, slots=True)
class EarlierReport:
    """An earlier report; see `Coverage`."""

    soc_manufacturer: str
    soc_model: str
    plugin_sdk_version: str
    sdk_version: str
    models: Sequence[EarlierModel]


@dataclass(frozen=True, slots=True)
class OpMove:
    """An op that has moved to the CPU or to the NPU; of a composite, perhaps only some parts have moved.

    Attributes:
      subgraph, index, name, output: Place, name and output of the op, as in `OpCoverage`; for a composite, `name`
        is the composite's name.
      reason: Reason why the op is on the CPU now; "" if the op is on the NPU now.
    """

    subgraph: int
    index: int
    name: str
    output: str
    reason: str


@dataclass(frozen=True, slots=True)
class CallSplit:
    """An NPU call of the earlier report whose ops are now in several calls.

    Attributes:
      call: Name of the call in the earlier report.
      calls: Names of the calls that contain these ops now.
    """

    call: str
    calls: Sequence[str]


@dataclass(frozen=True, slots=True)
class ModelChange:
    """The changes of one model.

    Attributes:
      path: Path of the model.
      problem: Reason why the model cannot be compared; "" if the model was compared.
      is_worse: Whether the model has become worse.
      had_problem, has_problem: Whether the analysis of the model failed in the earlier report, and whether it
        failed now; if one of the two failed, nothing is compared.
      num_calls_before, num_calls: Number of NPU calls in the earlier report, and now.
      left: Ops that are no longer on the NPU.
      came: Ops that are on the NPU now, and were not on the NPU before.
      splits: Calls of the earlier report whose ops are now in several calls.
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
        """Whether nothing has changed for the model."""
        has_problem = self.problem or self.had_problem or self.has_problem
        has_change = self.left or self.came or self.splits
        return not (has_problem or has_change) and self.num_calls == self.num_calls_before


@dataclass(frozen=True, slots=True)
class CoverageChange:
    """The changes of coverage since an earlier report.

    Attributes:
      path: Path of the earlier report.
      soc_manufacturer, soc_model, plugin_sdk_version, sdk_version: Vendor and SoC model of the NPU, and versions,
        in the earlier report.
      is_worse: Whether any model has become worse.
      models: Changes of the models that are in both reports.
      new: Paths of models that are missing in the earlier report.
      missing: Paths of models that are only in the earlier report.
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
"""Subgraph and index of an op in the file, and the output's name if the op is not in the file."""

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
    """Reads a report that `litert-npu coverage --report=json` printed.

    Raises:
      LiteRtError: NOT_FOUND or FILE_IO, if the file cannot be read; INVALID_ARGUMENT, if the file is not a
        coverage report.
    """
    with MappedFile(path) as file:
        try:
            return _REPORT.read(JsonNode.parse(file.view, path, Status.INVALID_ARGUMENT))
        except LiteRtError as error:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"the file is not a report of litert-npu coverage: {error.what}",
                error.where,
                "Make the file again with litert-npu coverage --report=json, in this version.",
            ) from error


def find_change(path: str, earlier: EarlierReport, coverage: Coverage) -> CoverageChange:
    """Compares coverage with an earlier report that was read from `path`."""
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
    """Pairs models by path; the rest by file name, if the name is unique."""
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
    """Models by file name, without names that several models have."""
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
    """Groups ops by their place in the file, composites with their parts; ops outside the file by output name."""
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
    """Says why two lists of ops cannot belong to the same model; "" if they can."""
    for place, ops in now.items():
        if place in before and _name(before[place]) != _name(ops):
            was, name = _name(before[place]), _name(ops)
            return f"the models differ: op {place[1]} of subgraph {place[0]} was {was}, and is now {name}"
    if any(index < 0 for _, index, _ in (*before, *now)):
        return ""  # transformations remove ops, and may differ between the reports
    # A decomposition exists only while one of its composites is whole and on the CPU.
    both = {place[0] for place in before} & {place[0] for place in now}
    for place in before.keys() ^ now.keys():
        if place[0] in both:
            there = "is gone" if place in before else "is new"
            return f"the models differ: op {place[1]} of subgraph {place[0]} {there}"
    return ""


def _moves(
    before: Mapping[_Place, Sequence[EarlierOp]], now: Mapping[_Place, Sequence[OpCoverage]]
) -> Iterator[OpMove]:
    """Finds ops with fewer parts on the NPU than before, with a reason, and ops with more parts."""
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
        if len(own) == 1:  # parts of a composite may be in several calls
            now_calls = (op.call for op in now.get(place, ()) if op.call)
            calls.setdefault(own.pop(), {}).update(dict.fromkeys(now_calls))
    for call, parts in calls.items():
        if len(parts) > 1:
            yield CallSplit(call, list(parts))
