"""The report of a command, as a Python object, as text or as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from textwrap import TextWrapper
from typing import TYPE_CHECKING

from litert.core.counts import list_text
from litert.core.quoting import continued, name_text
from litert.core.suggestion import closest_name
from litert.model.expected_time import ExpectedCall, ExpectedTime
from litert.model.memory_plan import CallMemory

if TYPE_CHECKING:
    from compiler_plugin.outline import Partition
    from litert.core.compiler_options import CustomOpInfo
    from litert.model.assets import Asset
    from litert.model.graph import Subgraph

NO_OUTPUTS = (
    "the main subgraph has no outputs, so a run returns nothing; "
    "in a ModelBuilder, add outputs with the method `output`"
)
NO_CALLS = "no op went to the NPU"
"""The warning about a compiled model without an NPU call."""

_WIDTH = 100
_MOST_CALLS = 5
"""If there are more NPU calls than this, the text shows only the sum of their expected times."""


@dataclass(frozen=True, slots=True)
class OpReport:
    """Result for one op of the input model: the NPU call that contains the op, or why the op stays on the CPU.

    Attributes:
      subgraph: Index of the op's subgraph in the model.
      index: Position of the op in the subgraph.
      name: Custom code of a custom op, or name of a builtin op.
      call: Name of the NPU call that contains the op; "" if the op stays on the CPU.
      reason: Reason why the op stays on the CPU; "" if the op is in an NPU call.
    """

    subgraph: int
    index: int
    name: str
    call: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CompositeReport:
    """Result for one composite of the input model.

    A composite is an op whose result can also be computed by a subgraph of other ops. If the compiler replaces the
    composite by these ops, the composite is decomposed.

    Attributes:
      subgraph: Index of the composite's subgraph in the model.
      name: Name of the composite, such as `odml.rms_norm`.
      num_parts: Number of ops that replace the composite; 0 if the composite is not decomposed.
      num_npu_parts: How many of the ops that replace the composite are in NPU calls.
      call: Name of the NPU call that contains the whole composite; "" if no NPU call contains the composite.
      reason: Reason why the whole composite stays on the CPU; "" if the composite is decomposed or in an NPU call.
    """

    subgraph: int
    name: str
    num_parts: int = 0
    num_npu_parts: int = 0
    call: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.num_parts:
            return f"decomposed, {self.num_npu_parts} of {_count(self.num_parts, 'op')} on the NPU"
        return (
            "not decomposed, on the NPU"
            if self.call
            else f"not decomposed, on the CPU: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class CallReport:
    """One NPU call of the output model.

    Attributes:
      name: Name of the call's partition, which is the group of ops that the call runs.
      subgraph: Index of the subgraph that contains the NPU call.
      function_name: Name of the call's function in the byte code; "" if the command does not write byte code.
      module: Index of the byte code module that contains the function; -1 if the command does not write byte code.
      num_ops, num_inputs, num_outputs: Number of ops, inputs and outputs of the partition.
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
        """Creates the report of an NPU call from its partition; `index` is the index of the subgraph."""
        numbers = len(part.ops), len(part.inputs), len(part.outputs)
        return cls(name, index, function, module, *numbers)


@dataclass(frozen=True, slots=True)
class AssetReport:
    """One embedded asset or companion file.

    Attributes:
      name: Name of the asset, as passed to the vendor's `register_asset`.
      size: Size of the asset, in bytes.
      path: Path of the asset's file, as given by the user or found by the plugin; "" for a companion file.
      is_native: Whether the asset contains machine code, which runs only if the user allows native assets.
    """

    name: str
    size: int
    path: str = ""
    is_native: bool = False


@dataclass(frozen=True, slots=True)
class TransformationReport:
    """Result of one transformation in all subgraphs.

    Attributes:
      name: Name of the transformation in `--transformations`.
      phase: Phase of the transformation (`front`, `middle` or `back`); for a plugin's transformation, the name of
        the vendor.
      matches: How often the transformation matched.
      seconds: Time of the transformation in seconds, including shape inference and checks after the
        transformation's edits. For a vendor's transformation, this is the time of all transformations of the
        vendor.
      path: Path of the transformation's file; "" for a built-in transformation.
    """

    name: str
    phase: str
    matches: int
    seconds: float
    path: str = ""


@dataclass(slots=True)
class Report:
    """Report of a command that compiles, partitions or transforms a model.

    A composite is an op with a subgraph of other ops that can replace the composite.

    Attributes:
      cmd: Name of the command: `apply`, `partition`, `compile`, `noop` or `transform`.
      model_path, output_path: Paths as the user gave them; the output path is "" if the command writes no file.
      output_size: Size of the output file, in bytes.
      soc_manufacturer, soc_model: Vendor and SoC model to compile for; "" if the command uses no vendor's plugin.
      defaults: Settings that the user has not chosen, and that therefore have their defaults: "manufacturer", "SoC
        model", or both.
      plugin: Where the plugin was found: a file path or an installed package.
      plugin_sdk_version: Version of the vendor's compiler.
      ops: All ops of the input model, in order. If the compiler replaces a composite by other ops, the list
        contains these ops instead of the composite.
      composites: All composites of the input model, in order.
      calls: NPU calls of the output model.
      modules: Sizes of the byte code modules, in bytes.
      assets: Embedded assets, and companion files (the files that assets refer to), in the order of the output
        file.
      transformations: Transformations in the order in which they ran.
      memory: Memory plan of each NPU call, if the vendor provides memory plans.
      expected_times: The vendor's estimates for each NPU call: the time of the call, and the time that the same
        ops would take on the CPU. Empty if the vendor provides no estimates.
      notes: Notes from the vendor.
      warnings: Warnings from the command itself, not from the vendor.
      not_runnable: Names of custom ops that run neither on the NPU nor on the CPU with stock LiteRT. A program
        that registers kernels for these ops can run them.
      seconds: Time that the command took, in seconds.
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
        """The ops that are in NPU calls."""
        return [op for op in self.ops if op.call]

    @property
    def cpu_ops(self) -> Sequence[OpReport]:
        """The ops that stay on the CPU, each with its reason."""
        return [op for op in self.ops if not op.call]

    @property
    def why_not_runnable(self) -> str:
        """A message about the ops in `not_runnable`."""
        kernels = "a kernel for the op" if len(self.not_runnable) == 1 else "kernels for these ops"
        said = not_runnable_text(self.not_runnable)
        return f"{said}. The model runs only in a program that registers {kernels}."

    def to_json(self) -> str:
        """Returns the whole report as one JSON object on several lines."""
        return json.dumps(asdict(self), indent=1)

    def to_text(self) -> str:
        """Returns a short report as text, with the number of ops by name, and the number of CPU ops by reason."""
        return "\n".join(map(continued, self._lines()))

    def _lines(self) -> Iterator[str]:
        if self.soc_manufacturer:
            named = (
                f" (by default, because no {' or '.join(self.defaults)} was given)"
                if self.defaults
                else ""
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
                native = "; contains machine code, which runs only with allow_native_assets"
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
        """Yields one line for each call, or one line with the sum if there are many calls."""
        calls = self.expected_times
        if len(calls) <= _MOST_CALLS:
            yield from (f"  expected time of {call.call}: {call.time}" for call in calls)
        else:
            total = ExpectedTime.sum(call.time for call in calls)
            yield f"  expected time of {_count(len(calls), 'call')}: {total}"


def not_runnable_text(names: Sequence[str]) -> str:
    """Returns a sentence, without a full stop, about ops that neither the NPU nor stock LiteRT can run."""
    ops = list_text("op", [name_text(name) for name in names])
    return f"neither the NPU nor stock LiteRT's CPU kernels can run {ops}"


def report_assets(
    report: Report,
    assets: Sequence[Asset],
    infos: Sequence[CustomOpInfo],
    native_assets: Collection[str],
) -> None:
    """Adds the assets to the report; warns about unused assets, and about a model without an NPU call."""
    paths = {info.op_name: info.asset_path for info in infos}
    report.assets = [
        AssetReport(a.name, a.blob.size, paths.get(a.name, ""), a.name in native_assets)
        for a in assets
    ]
    report.warnings += _asset_warnings(report, assets)
    if report.ops and not report.calls:
        report.warnings.append(NO_CALLS)


def _near_name(op_name: str, names: Collection[str]) -> str:
    near = closest_name(op_name, sorted(names), 0.8)
    return f" (did you mean '{near}'?)" if near else ""


def _asset_warnings(report: Report, assets: Sequence[Asset]) -> Iterator[str]:
    """Yields a warning for each asset that is not used by all ops with its name."""
    names = {op.name for op in report.ops}
    composites = {composite.name for composite in report.composites}
    for asset in assets:
        if asset.companion_path:
            continue
        if asset.op_name in composites - names:
            yield (
                f"the asset for '{asset.op_name}' has no effect, because this is the name of a "
                "composite, not of an op. Give the asset for STABLEHLO_COMPOSITE (all "
                "composites), or for an op of the composite's decomposition. The asset is still "
                "embedded"
            )
        elif asset.op_name not in names:
            but = _near_name(asset.op_name, names)
            yield (
                f"an asset is given for op '{asset.op_name}', but the model has no such op{but}; "
                "the asset is still embedded"
            )
        left = [op for op in report.cpu_ops if op.name == asset.op_name]
        if left:
            reasons = "; ".join(dict.fromkeys(op.reason for op in left))
            stay = "stays" if len(left) == 1 else "stay"
            ops = f"{_count(len(left), 'op')} '{asset.op_name}'"
            yield f"{ops} {stay} on the CPU, although an asset is given: {reasons}"


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
