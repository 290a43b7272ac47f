"""What a command did, as an object; as text for people, and as JSON for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from litert.core.quoting import continued, name_text
from litert.model.expected_time import ExpectedCall, ExpectedTime
from litert.model.memory_plan import CallMemory

if TYPE_CHECKING:
    from compiler_plugin.outline import Partition
    from litert.core.compiler_options import CustomOpInfo
    from litert.model.assets import Asset
    from litert.model.graph import Subgraph

NO_CALLS = "no op went to the NPU"
"""The warning about a model that is compiled, and calls no NPU."""

_WIDTH = 100
_MOST_CALLS = 5
"""Of which each has a line; the report as JSON has all."""


@dataclass(frozen=True, slots=True)
class OpReport:
    """Where one op of the input went.

    Attributes:
      subgraph: its subgraph's index in the model.
      index: its position there.
      name: custom code, or the builtin operator's name.
      call: the NPU call that it is in; "" on the CPU.
      reason: why it stays on the CPU; "" on the NPU.
    """

    subgraph: int
    index: int
    name: str
    call: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CompositeReport:
    """What became of one composite.

    Attributes:
      subgraph: index of its subgraph.
      name: of what it computes: `odml.rms_norm`.
      num_parts: ops that are in its place; 0 where it is whole.
      num_npu_parts: of these, how many are in NPU calls.
      call: the NPU call that it is in as a whole; "" where it is not.
      reason: why it stays on the CPU as a whole; "" where it does not.
    """

    subgraph: int
    name: str
    num_parts: int = 0
    num_npu_parts: int = 0
    call: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.num_parts:
            return f"taken apart, {self.num_npu_parts} of {_count(self.num_parts, 'op')} on the NPU"
        return "whole on the NPU" if self.call else f"whole on the CPU: {self.reason}"


@dataclass(frozen=True, slots=True)
class CallReport:
    """One NPU call.

    Attributes:
      name: of its partition.
      subgraph: index of the subgraph that it is in.
      function_name: of the function in its byte code; "" where nothing was compiled.
      module: index of its byte code module; -1 where nothing was compiled.
      num_ops, num_inputs, num_outputs: of the partition.
    """

    name: str
    subgraph: int
    function_name: str
    module: int
    num_ops: int
    num_inputs: int
    num_outputs: int

    @classmethod
    def of(
        cls, name: str, index: int, part: Partition | Subgraph, function: str = "", module: int = -1
    ) -> CallReport:
        """The call of ops, a part of the subgraph of that index."""
        numbers = len(part.ops), len(part.inputs), len(part.outputs)
        return cls(name, index, function, module, *numbers)


@dataclass(frozen=True, slots=True)
class AssetReport:
    """One embedded asset or companion.

    Attributes:
      name: as `register_asset` gets it.
      size: in bytes.
      path: of an asset's file, as it was given or found; "" for a companion.
      is_native: whether it is machine code, which runs where it is allowed.
    """

    name: str
    size: int
    path: str = ""
    is_native: bool = False


@dataclass(frozen=True, slots=True)
class TransformationReport:
    """What one transformation did, in all subgraphs.

    Attributes:
      name: as `--transformations` has it.
      phase: `front`, `middle` or `back`; or the vendor, whose transformation it is.
      matches: how often it matched.
      seconds: that it took, with what it left to infer and to check; all of a vendor's take together.
      path: of its file; "" for one of ours.
    """

    name: str
    phase: str
    matches: int
    seconds: float
    path: str = ""


@dataclass(slots=True)
class Report:
    """What a command did.

    Attributes:
      cmd: `apply`, `partition`, `compile`, `noop` or `transform`.
      model_path, output_path: as they were given; the output is "" where nothing was written.
      output_size: in bytes.
      soc_manufacturer, soc_model: that were compiled for; "" where no vendor was asked.
      defaults: which of the two nobody named.
      plugin: where the plugin was found.
      plugin_sdk_version: of the vendor's compiler.
      ops: all of the input, in order; of composites that are taken apart, their parts.
      composites: of the input, in order.
      calls: those in the output.
      modules: sizes of byte code in bytes.
      assets: that were embedded, in their order.
      transformations: in the order in which they ran, before a vendor was asked.
      memory: what lies where while a call runs, of those whose vendor says it.
      expected_times: of calls, as far as the vendor says it, and of the same ops on the CPU.
      notes: what the vendor has to say.
      warnings: what the host has to say.
      not_runnable: names of custom ops that neither the NPU nor stock LiteRT's CPU runs; a program may.
      seconds: that the command took.
    """

    cmd: str
    model_path: str
    output_path: str = ""
    output_size: int = 0
    soc_manufacturer: str = ""
    soc_model: str = ""
    defaults: Sequence[str] = ()
    plugin: str = ""
    plugin_sdk_version: str = ""
    ops: Sequence[OpReport] = ()
    composites: Sequence[CompositeReport] = ()
    calls: Sequence[CallReport] = ()
    modules: Sequence[int] = ()
    assets: Sequence[AssetReport] = ()
    transformations: Sequence[TransformationReport] = ()
    memory: Sequence[CallMemory] = ()
    expected_times: Sequence[ExpectedCall] = ()
    notes: Sequence[str] = ()
    warnings: list[str] = field(default_factory=list)
    not_runnable: Sequence[str] = ()
    seconds: float = 0.0

    @property
    def npu_ops(self) -> Sequence[OpReport]:
        """The ops that went to the NPU."""
        return [op for op in self.ops if op.call]

    @property
    def cpu_ops(self) -> Sequence[OpReport]:
        """The ops that stay on the CPU, each with its reason."""
        return [op for op in self.ops if not op.call]

    @property
    def why_not_runnable(self) -> str:
        """What follows of `not_runnable`, in words."""
        kernels = "a kernel for it" if len(self.not_runnable) == 1 else "kernels for them"
        ops = ", ".join(map(name_text, self.not_runnable))
        return (
            f"neither the NPU nor stock LiteRT's CPU runs {ops}. The model runs only in a program that "
            f"registers {kernels}."
        )

    def to_json(self) -> str:
        """All of it, as one JSON object on lines of its own."""
        return json.dumps(asdict(self), indent=1)

    def to_text(self) -> str:
        """A few lines for people; ops are counted by name, and on the CPU by reason."""
        return "\n".join(map(continued, self._lines()))

    def _lines(self) -> Iterator[str]:
        if self.soc_manufacturer:
            named = (
                f" (no {' or '.join(self.defaults)} was named: by default)" if self.defaults else ""
            )
            yield f"Target: {self.soc_manufacturer} {self.soc_model}{named}"
        if self.transformations:
            yield from self._transformation_lines()
        if self.ops:
            yield from self._op_lines()
        if self.composites:
            yield "Composites:"
            counts = Counter((item.name, str(item)) for item in self.composites)
            for (name, fate), count in counts.items():
                yield from _wrap(f"{count} {name}: {fate}")
        if self.assets:
            yield "Assets:"
            for asset in self.assets:
                origin = f", from {asset.path}" if asset.path else ""
                native = ": machine code, to be run with allow_native_assets"
                yield f"  {name_text(asset.name)}: {_bytes(asset.size)}{origin}{native if asset.is_native else ''}"
        yield from (f"Note: {note}" for note in self.notes)
        yield from (f"Warning: {warning}" for warning in self.warnings)
        written = (
            f"Wrote {self.output_path}: {_bytes(self.output_size)}"
            if self.output_path
            else "Nothing was written"
        )
        yield f"{written}, in {self.seconds:.2f} s"
        if self.not_runnable:
            yield f"Warning: {self.why_not_runnable}"

    def _transformation_lines(self) -> Iterator[str]:
        yield "Transformations:"
        width = max(len(item.name) for item in self.transformations)
        for item in self.transformations:
            matches = f"{item.matches:,} match" + ("" if item.matches == 1 else "es")
            origin = f", {item.path}" if item.path else ""
            yield f"  {item.name:{width}}  {item.phase:6}  {matches:>11}, {item.seconds:.3f} s{origin}"

    def _op_lines(self) -> Iterator[str]:
        npu, cpu = self.npu_ops, self.cpu_ops
        calls = f" in {_count(len(self.calls), 'call')}" if npu else ""
        modules = f", {_bytes(sum(self.modules))} of byte code" if self.modules else ""
        yield f"NPU: {len(npu)} of {_count(len(self.ops), 'op')}{calls}{modules}"
        yield from _wrap(_names(npu))
        yield from self._expected_lines()
        yield f"CPU: {len(cpu)} of {_count(len(self.ops), 'op')}"
        by_reason: dict[str, list[OpReport]] = {}
        for op in cpu:
            by_reason.setdefault(op.reason, []).append(op)
        for reason, ops in sorted(by_reason.items(), key=lambda item: -len(item[1])):
            yield from _wrap(f"{_names(ops)}: {reason}")

    def _expected_lines(self) -> Iterator[str]:
        """A line for each of a few calls, and the sum of many."""
        calls = self.expected_times
        if len(calls) <= _MOST_CALLS:
            yield from (f"  expected of {call.call}: {call.time}" for call in calls)
        else:
            total = ExpectedTime.sum(call.time for call in calls)
            yield f"  expected of {_count(len(calls), 'call')}: {total}"


def report_assets(
    report: Report,
    assets: Sequence[Asset],
    infos: Sequence[CustomOpInfo],
    native_assets: Collection[str],
) -> None:
    """The assets, what became of them, and the warning where nothing became of anything."""
    paths = {info.op_name: info.asset_path for info in infos}
    report.assets = [
        AssetReport(a.name, a.blob.size, paths.get(a.name, ""), a.name in native_assets)
        for a in assets
    ]
    report.warnings += _asset_warnings(report, assets)
    if report.ops and not report.calls:
        report.warnings.append(NO_CALLS)


def _near_name(op_name: str, names: Collection[str]) -> str:
    same = [name for name in sorted(names) if name.lower() == op_name.lower()]
    if same:
        return f", but {same[0]}"
    from difflib import get_close_matches  # here: few models need it

    near = get_close_matches(op_name, sorted(names), 1, cutoff=0.8)
    return f" (is '{near[0]}' meant?)" if near else ""


def _asset_warnings(report: Report, assets: Sequence[Asset]) -> Iterator[str]:
    """What became of the user's assets, where it is not what they were given for."""
    names = {op.name for op in report.ops}
    composites = {composite.name for composite in report.composites}
    for asset in assets:
        if asset.companion_path:
            continue
        if asset.op_name in composites - names:
            yield (
                f"'{asset.op_name}' is the name of a composite, and assets go by ops: STABLEHLO_COMPOSITE is all "
                "composites, or give one for an op that it stands for; its asset is embedded all the same"
            )
        elif asset.op_name not in names:
            but = _near_name(asset.op_name, names)
            yield f"the model has no op '{asset.op_name}'{but}; its asset is embedded all the same"
        left = [op for op in report.cpu_ops if op.name == asset.op_name]
        if left:
            reasons = "; ".join(dict.fromkeys(op.reason for op in left))
            stay = "stays" if len(left) == 1 else "stay"
            its = "its" if len(left) == 1 else "their"
            yield f"{len(left)} {asset.op_name} {stay} on the CPU, despite {its} asset: {reasons}"


def _names(ops: Sequence[OpReport]) -> str:
    counts = Counter(op.name for op in ops)
    return ", ".join(f"{count} {name_text(name)}" for name, count in counts.most_common())


def _wrap(text: str) -> Sequence[str]:
    return TextWrapper(
        _WIDTH, initial_indent="  ", subsequent_indent="    ", break_long_words=False
    ).wrap(text)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _bytes(size: int) -> str:
    return _count(size, "byte")
