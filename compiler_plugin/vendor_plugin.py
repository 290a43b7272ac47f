"""Calls a vendor's plugin for the host, and checks each result of the plugin.

If the vendor's code raises an error or returns an invalid result, the error message contains the vendor and the
function.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from compiler_plugin.effects import why_cpu_only
from compiler_plugin.plugin import (
    CallInfo,
    Companion,
    CompiledResult,
    CompilerPlugin,
    DataLayout,
    Grouping,
    OpList,
    Selection,
    has_optional,
)
from compiler_plugin.registry import RegisteredPlugin
from compiler_plugin.report import TransformationReport
from compiler_plugin.snapshot import Snapshot
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.counts import count_text, index_range, out_of_range
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import VENDOR_REPAIRS, ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.core.tracing import SpanKind, span
from litert.core.version import COMPILER_PLUGIN_API_VERSION
from litert.host.vendor_call import VendorCall
from litert.model.assets import check_companion_path, check_op_name
from litert.model.blob import Blob
from litert.model.expected_time import find_time_mistake
from litert.model.graph import Model, Op, Subgraph
from litert.model.memory_plan import find_plan_mistake

NO_REASON = "the plugin refuses the op without giving a reason"

_Item = TypeVar("_Item")
_CALLS = ("partition", "compile", "companions", "close")
_LAYOUTS: tuple[DataLayout, ...] = ("NHWC", "NCHW")
_GROUPINGS: tuple[Grouping, ...] = ("connected", "consecutive")


@dataclass(frozen=True, slots=True)
class Taken:
    """The ops that a plugin takes from a subgraph.

    Attributes:
      selected: Partition index of each op that the plugin takes.
      reasons: Reasons why other ops stay on the CPU; ops for which neither the plugin nor the host gives a reason
        are omitted.
    """

    selected: dict[Op, int]
    reasons: dict[Op, str]

    def by_position(self, ops: Sequence[Op]) -> tuple[dict[int, int], dict[int, str]]:
        """Returns the partition indices of the taken ops and the reasons for all other ops, by position."""
        selected, reasons = self.selected, self.reasons
        return (
            {i: selected[op] for i, op in enumerate(ops) if op in selected},
            {i: reasons.get(op, NO_REASON) for i, op in enumerate(ops) if op not in selected},
        )


class VendorPlugin:
    """A vendor's plugin for one SoC model; as a context manager, the object closes the plugin.

    Attributes:
      vendor: Manufacturer of the plugin.
      soc_model: SoC model to compile for.
      data_layout: Data layout of the partitions that the host passes to `compile`.
      grouping: How the host groups the ops that the plugin takes into partitions.
      is_asked_as_in_stock: Whether the plugin gets only the ops that it would get from stock LiteRT, so that the
        partitions are the same as in stock LiteRT.
    """

    def __init__(
        self,
        registered: RegisteredPlugin,
        soc_model: str,
        environment_options: EnvironmentOptions,
        compiler_options: CompilerOptions,
        warnings: list[str],
    ) -> None:
        """Checks the compatibility, and creates the plugin; an error while closing it becomes a warning."""
        factory = registered.factory
        self.vendor = factory.soc_manufacturer
        self.soc_model = soc_model
        self._warnings = warnings
        self._is_closed = False
        with self._measured("check_compiler_compatibility", Status.UNSUPPORTED_COMPILER_VERSION):
            factory.check_compiler_compatibility(
                COMPILER_PLUGIN_API_VERSION, soc_model, compiler_options
            )
        with self._measured("create", Status.DYNAMIC_LOADING):
            self._plugin: CompilerPlugin = factory.create(environment_options, compiler_options)
        missing = [name for name in _CALLS if not callable(getattr(self._plugin, name, None))]
        if missing:
            raise self._nonsense(
                "create",
                f"the returned object ({type(self._plugin).__name__}) has no method '{missing[0]}'",
            )
        if compiler_options.replace_ir and not getattr(self._plugin, "takes_ir", False):
            raise LiteRtError(
                Status.UNSUPPORTED,
                f"the plugin of vendor '{self.vendor}' does not compile IR files",
                "--replace_ir",
                "Compile without --replace_ir.",
            )
        self.data_layout = self._read_choice("data_layout", _LAYOUTS)
        grouping = self._read_choice("grouping", _GROUPINGS)
        self.is_asked_as_in_stock = grouping == "consecutive"
        is_default = compiler_options.partition_strategy == "default"
        self.grouping: Grouping = grouping if is_default else "connected"

    def __enter__(self) -> VendorPlugin:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.close()
        except LiteRtError as error:  # the exception in the block is more important
            self._warnings.append(str(error))

    def close(self) -> None:
        """Closes the plugin, which must not be used any more; an error of the plugin becomes a warning.

        Raises:
          LiteRtError: RUNTIME_FAILURE or TIMEOUT_EXPIRED, if the plugin's process crashed or hung; its compiled
            byte code may then be broken too.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            with self._measured("close"):
                self._plugin.close()
        except LiteRtError as error:
            if isinstance(error.__cause__, ChildEndedError):
                raise
            self._warnings.append(str(error))

    def transform(self, model: Model) -> Sequence[TransformationReport]:
        """Lets the vendor's plugin rewrite the model, if the plugin has transformations."""
        if not has_optional(self._plugin, "transform"):
            return []
        start = time.perf_counter()
        with self._measured("transform"):
            matches = self._plugin.transform(model)
        if not isinstance(matches, Mapping):
            raise self._nonsense(
                "transform",
                f"the plugin's transform returns {type(matches).__name__}, not a mapping",
            )
        for name, count in matches.items():
            if not _is_name(name) or not _is_index(count):
                raise self._nonsense(
                    "transform",
                    f"the plugin's transform returns the invalid entry {name!r:.100}: "
                    f"{count!r:.100}; an entry must map a name to the number of matches, at least 0",
                )
        seconds = (
            time.perf_counter() - start
        )  # total time; the host cannot measure single transformations
        return [
            TransformationReport(name, self.vendor, count, seconds if count else 0.0)
            for name, count in matches.items()
        ]

    def partition(self, subgraph: Subgraph, where: str) -> Taken:
        """Asks which ops of a subgraph the vendor takes, and removes ops that an NPU call cannot contain.

        `where` is the name of the subgraph in error messages.
        """
        position = {op: index for index, op in enumerate(subgraph.ops)}
        op_list = OpList()
        before = Snapshot.take(subgraph)
        with self._measured("partition", num_ops=len(subgraph.ops)):
            returned: object = self._plugin.partition(self.soc_model, subgraph, op_list)  # type: ignore[func-returns-value]
            change = before.find_change(subgraph)
        if change:
            raise self._nonsense(
                "partition",
                f"the plugin has changed {change} of {where}, but may only read the subgraph",
            )
        if returned is not None:
            raise self._nonsense(
                "partition",
                f"the plugin's partition returns {type(returned).__name__}, but must return None, "
                "and select ops with op_list.push",
            )
        selected: dict[Op, int] = {}
        ops = self._check_list(op_list.selected, Selection, "op_list.selected", "partition")
        for selection in ops:
            op, number = selection.op, selection.partition_index
            if not isinstance(op, Op) or op not in position:
                raise self._nonsense(
                    "partition",
                    f"the plugin passed {op!r:.100} to op_list.push, but {where} has no such op",
                )
            if not _is_index(number):
                raise self._nonsense(
                    "partition",
                    f"the plugin passed partition index {number!r:.100} to op_list.push, but the index must "
                    "be a whole number of at least 0",
                )
            if op in selected:
                raise self._nonsense(
                    "partition",
                    f"the plugin passed op {position[op]} ({op.name}) of {where} to op_list.push twice",
                )
            selected[op] = number
        reasons: dict[Op, str] = {}
        if not isinstance(op_list.refusals, Mapping):
            raise self._nonsense(
                "partition",
                f"op_list.refusals is {op_list.refusals!r:.100}, not a mapping from ops to reasons",
            )
        for op, reason in op_list.refusals.items():
            if op not in position or not isinstance(reason, str):
                raise self._nonsense(
                    "partition",
                    f"op_list.refusals has the entry {op!r:.100}: {reason!r:.100}; an entry must "
                    "map an op of the subgraph to a string",
                )
            if op not in selected:
                reasons[op] = reason
        for op in list(selected):
            if why := why_cpu_only(op):
                reasons[op] = why
                del selected[op]
        return Taken(selected, reasons)

    def compile(self, partitions: Sequence[Subgraph]) -> CompiledResult:
        """Compiles partitions, and returns the byte code with one NPU call for each partition."""
        ranks = [[len(tensor.shape) for tensor in p.outputs] for p in partitions]  # before compile
        num_ops = sum(len(partition.ops) for partition in partitions)
        with self._measured("compile", Status.COMPILATION, num_ops=num_ops):
            result = self._plugin.compile(self.soc_model, partitions)
        if not isinstance(result, CompiledResult):
            raise self._nonsense(
                "compile",
                f"the plugin's compile returns {type(result).__name__}, not a CompiledResult",
            )
        modules = self._check_list(result.byte_code, Blob, "byte_code of the CompiledResult")
        calls = self._check_list(result.calls, CallInfo, "calls of the CompiledResult")
        self._check_list(result.notes, str, "notes of the CompiledResult")
        self._check_list(result.native_assets, str, "native_assets of the CompiledResult")
        if len(calls) != len(partitions):
            raise self._nonsense(
                "compile",
                f"the plugin returns {count_text(len(calls), 'NPU call')} for "
                f"{count_text(len(partitions), 'partition')}, but must return one NPU call for each partition",
            )
        for index, module in enumerate(modules):
            if not isinstance(module.view, memoryview) or not module.view.c_contiguous:
                raise self._nonsense(
                    "compile", f"byte code module {index} is not a contiguous block of bytes"
                )
            if not module.size:
                raise self._nonsense("compile", f"byte code module {index} is empty")
        for index, (call, output_ranks) in enumerate(zip(calls, ranks, strict=True)):
            self._check_call(index, call, len(modules))
            self._check_shape_outputs(call, output_ranks)
        return result

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        """Returns the companion files that an asset refers to."""
        with self._measured("companions", op=op_name):
            companions = self._plugin.companions(op_name, asset_path, data)
        what = "the list that companions returns"
        for companion in self._check_list(companions, Companion, what, "companions"):
            if not isinstance(companion.relative_path, str) or not isinstance(companion.blob, Blob):
                raise self._nonsense(
                    "companions",
                    f"the plugin returns the invalid companion file {companion!r:.100}; relative_path must be a "
                    "string, and blob a Blob",
                )
            with self._call("companions"):
                check_companion_path(companion.relative_path, f"asset of op '{op_name}'")
        for path, number in Counter(companion.relative_path for companion in companions).items():
            if number > 1:
                raise self._nonsense(
                    "companions", f"the plugin returns the companion file {path!r:.100} twice"
                )
        return companions

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        """Returns assets for the named ops from layer libraries (`--custom_layers`)."""
        with self._measured("custom_layers"):
            # A vendor's plugin need not be derived from CompilerPlugin, and may lack optional methods.
            if not has_optional(self._plugin, "custom_layers"):
                return CompilerPlugin.custom_layers(self._plugin, paths, op_names)
            found = self._plugin.custom_layers(paths, op_names)
        what = "the list that custom_layers returns"
        for info in self._check_list(found, CustomOpInfo, what, "custom_layers"):
            is_text = isinstance(info.op_name, str) and isinstance(info.asset_path, str)
            if not is_text or not info.asset_path:
                raise self._nonsense(
                    "custom_layers",
                    f"the plugin returns the invalid layer {info!r:.100}; op_name and asset_path must be strings, "
                    "and asset_path must not be empty",
                )
            if info.op_name not in op_names:
                raise self._nonsense(
                    "custom_layers",
                    f"the plugin returns a layer for op '{info.op_name:.100}', but the host requested layers only "
                    f"for {', '.join(sorted(op_names)):.100}",
                )
            with self._call("custom_layers"):
                check_op_name(info.op_name)
        for name, number in Counter(info.op_name for info in found).items():
            if number > 1:
                raise self._nonsense(
                    "custom_layers", f"the plugin returns two layers for op '{name:.100}'"
                )
        return found

    def _read_choice(self, attribute: str, allowed: tuple[_Item, ...]) -> _Item:
        """Reads an optional attribute of a plugin; the default is the first allowed value."""
        value: _Item = getattr(self._plugin, attribute, allowed[0])
        if value not in allowed:
            names = " or ".join(map(str, allowed))
            raise self._nonsense(
                "create", f"the plugin's {attribute} is {value!r:.100}, but must be {names}"
            )
        return value

    def _check_call(self, index: int, call: CallInfo, num_modules: int) -> None:
        if not _is_name(call.name):
            raise self._nonsense(
                "compile",
                f"NPU call {index} has the invalid name {call.name!r:.100}; a name must be a text in "
                "UTF-8 that is not empty and has no zero bytes",
            )
        number = call.byte_code_index
        if not _is_index(number) or number >= num_modules:
            raise self._nonsense(
                "compile",
                f"NPU call '{call.name}' has byte code index {number!r}, but "
                f"{index_range('byte code module', num_modules)}",
            )
        if mistake := find_plan_mistake(call.memory):
            raise self._nonsense(
                "compile", f"the memory plan of NPU call '{call.name}' is invalid: {mistake}"
            )
        if mistake := find_time_mistake(call.expected):
            raise self._nonsense(
                "compile", f"the expected time of NPU call '{call.name}' is invalid: {mistake}"
            )

    def _check_shape_outputs(self, call: CallInfo, ranks: Sequence[int]) -> None:
        what = f"shape_outputs of NPU call '{call.name}'"
        indices = self._check_list(call.shape_outputs, int, what)
        for index in indices:
            mistake = ""
            if not 0 <= index < len(ranks):
                mistake = out_of_range("output", index, len(ranks))
            elif not ranks[index]:
                mistake = f"output {index} has rank 0, and thus no shape to return"
            elif indices.count(index) > 1:
                mistake = f"index {index} occurs more than once"
            if mistake:
                raise self._nonsense(
                    "compile",
                    f"NPU call '{call.name}' has the invalid shape_outputs {indices!r:.100}, because {mistake}",
                )

    def _check_list(
        self, values: object, kind: type[_Item], what: str, call: str = "compile"
    ) -> Sequence[_Item]:
        if not isinstance(values, Sequence) or isinstance(values, str | bytes):
            raise self._nonsense(
                call,
                f"{what} has type {type(values).__name__}, but must be a list or another sequence",
            )
        for value in values:
            if not isinstance(value, kind):
                raise self._nonsense(
                    call,
                    f"{what} contains an item of type {type(value).__name__}, but each item must be of type "
                    f"{kind.__name__}",
                )
        return values

    def _call(self, name: str, status: Status = Status.RUNTIME_FAILURE) -> VendorCall:
        return VendorCall(self.vendor, name, status)

    @contextmanager
    def _measured(
        self, name: str, status: Status = Status.RUNTIME_FAILURE, **details: str | int
    ) -> Iterator[None]:
        """Measures a call of the vendor's function as a span."""
        with span(SpanKind.PLUGIN, name, vendor=self.vendor, **details), self._call(name, status):
            yield

    def _nonsense(self, call: str, what: str) -> LiteRtError:
        return LiteRtError(
            Status.INVALID_ARGUMENT,
            what,
            self._call(call).where,
            VENDOR_REPAIRS,
        )


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_name(value: object) -> bool:
    """Returns whether a dispatch op can contain a name: a text in UTF-8 without zero bytes."""
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)
