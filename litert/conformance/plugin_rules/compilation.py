"""Checks how a plugin partitions and compiles models, and checks the results of compilations."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import islice

from compiler_plugin.graph_copy import CopiedData, copy_ops
from compiler_plugin.native.plugin_library import GET_REFUSAL, IS_OUTPUT_DYNAMIC
from compiler_plugin.outline import extract
from compiler_plugin.snapshot import Snapshot
from litert.abi.definitions import ffi
from litert.conformance.checks import BrokenRuleError, Check, Rules, Stage, UnseenError
from litert.conformance.guarded_memory import GuardedMemory
from litert.conformance.models import custom_op_models
from litert.conformance.plugin_subject import PluginSubject
from litert.conformance.vendor_calls import expect_no_index, expect_status
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Subgraph

_NOBODYS_OP = "litert_npu_conformance_op_of_nobody"
_FAR_INDEX = 1000
_SLOTS = (
    "get_num_model_subgraphs", "get_num_subgraph_ops", "get_subgraph_op", "get_op_code",
    "get_num_op_inputs", "get_op_input", "get_op_output", "get_ranked_tensor_type",
    "get_tensor_weights", "get_weights_bytes", "push_op",
)  # fmt: skip
"""Functions of the compiler context that most plugins call."""

_COMPILE, _PARTITION = "LiteRtCompilerPluginCompile", "LiteRtCompilerPluginPartition"
_BYTE_CODE, _CALL_INFO = "LiteRtGetCompiledResultByteCode", "LiteRtGetCompiledResultCallInfo"
_NUM_MODULES = "LiteRtCompiledResultNumByteCodeModules"


def _partition_ops(subject: PluginSubject) -> None:
    """Partitions each model twice; `Plugin.partition` checks the ops that the plugin takes."""
    for model in subject.each_model():
        subject.partitions(model)


def _partition_one(subject: PluginSubject) -> None:
    with suppress(UnseenError):  # the plugin may take no op
        _ = subject.taken


def _reads_only(subject: PluginSubject) -> None:
    for model in subject.each_model():
        subgraph = _with_guarded_constants(model.model.subgraphs[0])
        before = Snapshot.take(subgraph)
        with subject.plugin() as plugin:
            plugin.partition(subgraph)
        if change := before.find_change(subgraph):
            raise BrokenRuleError(f"{model.name}: the plugin has changed {change}")


def _with_guarded_constants(subgraph: Subgraph) -> Subgraph:
    """Copies a model; the constants of the copy are in read-only memory that ends at a protected page."""
    ends = subgraph.inputs, subgraph.ops, subgraph.outputs
    copy = copy_ops(subgraph.name, *ends, CopiedData())
    for buffer in {tensor.buffer for tensor in copy.tensors if tensor.is_constant}:
        assert buffer.blob is not None
        memory = GuardedMemory(buffer.blob.size)
        memory.view[:] = buffer.blob.view
        memory.make_read_only()
        buffer.blob = Blob(memory.view)
    return copy


def _partition_soc_model(subject: PluginSubject) -> None:
    with subject.plugin() as plugin:
        plugin.partition(subject.models[0].model.subgraphs[0], ffi.NULL)


def _partition_repeatable(subject: PluginSubject) -> None:
    for model in subject.each_model():
        subgraph = model.model.subgraphs[0]
        with subject.plugin() as plugin:
            first = plugin.partition(subgraph)
            if plugin.partition(subgraph) != first:
                raise BrokenRuleError(
                    f"{model.name}: the plugin takes other ops when it partitions the model again"
                )
        with subject.plugin() as plugin:
            if plugin.partition(subgraph).keys() != first.keys():
                raise BrokenRuleError(
                    f"{model.name}: a second plugin object takes other ops than the first"
                )


def _refusal_text(subject: PluginSubject) -> None:
    _check_has_refusals(subject)
    for model in subject.each_model():
        subgraph = model.model.subgraphs[0]
        with subject.plugin() as plugin:
            plugin.partition(subgraph)
            reasons = [plugin.refusal(index) for index in range(len(subgraph.ops))]
            if [plugin.refusal(index) for index in range(len(subgraph.ops))] != reasons:
                raise BrokenRuleError(
                    f"{model.name}: the plugin returns another reason when the host calls the "
                    "function again"
                )


def _refusal_none(subject: PluginSubject) -> None:
    _check_has_refusals(subject)
    subgraph = subject.taken.model.subgraphs[0]
    with subject.plugin() as plugin:
        for index in [*plugin.partition(subgraph), len(subgraph.ops), _FAR_INDEX]:
            if reason := plugin.refusal(index):
                there = "was taken" if index < len(subgraph.ops) else "is not there"
                raise BrokenRuleError(f"op {index}, which {there}, is refused: {reason!r:.80}")


def _check_has_refusals(subject: PluginSubject) -> None:
    if not subject.vendor.has(GET_REFUSAL):
        raise UnseenError(f"the plugin does not export {GET_REFUSAL}")


def _compile(subject: PluginSubject, number: int | None = None) -> None:
    """Compiles the models of which the plugin takes an op; only the first `number` models if given."""
    _ = subject.taken  # raises if there is nothing to compile
    taken = (model for model in subject.each_model() if subject.partitions(model))
    for model in islice(taken, number):
        with subject.plugin() as plugin, plugin.compile(subject.partitions(model)):
            pass


def _old_context(subject: PluginSubject) -> None:
    taken, table = subject.taken, subject.host.old_table()
    with subject.plugin(table) as plugin, plugin.compile(plugin.plan(taken)):
        pass


def _slot_failure(subject: PluginSubject, slot: str) -> None:
    """Checks that the plugin does not crash if a host function fails; accepts any status."""
    named = subject.taken
    partitions = extract(subject.partitions(named))
    with subject.plugin(subject.host.failing_table(slot)) as plugin:
        with suppress(BrokenRuleError):
            plugin.partition(named.model.subgraphs[0])
        status, made = plugin.try_compile(partitions)
        if not status:
            subject.vendor.call_plain("LiteRtDestroyCompiledResult", made)


def _compile_soc_model(subject: PluginSubject) -> None:
    partition = subject.partition
    with subject.plugin() as plugin, plugin.compile([partition], ffi.NULL):
        pass


def _compile_repeatable(subject: PluginSubject) -> None:
    partitions = [subject.partition]
    with subject.plugin() as plugin:
        with plugin.compile(partitions) as first:
            before = first.module(0)
            with plugin.compile(partitions) as second:
                second.module(0)
            if first.module(0) != before:
                raise BrokenRuleError(
                    "the byte code of a result changes when another result is made and destroyed"
                )
        with plugin.compile(partitions):
            pass


def _destroy_results(subject: PluginSubject) -> None:
    partition = subject.partition
    with subject.plugin() as plugin:
        with plugin.compile([partition]) as result:
            result.num_modules()
        plugin.soc_models()
    with subject.compiled() as result:
        result.num_modules()


def _compile_failure(subject: PluginSubject) -> None:
    taken = subject.partition
    (bad,) = custom_op_models([_NOBODYS_OP])
    with subject.plugin() as plugin:
        status, made = plugin.try_compile(bad.model.subgraphs)
        if not status:
            subject.vendor.call_plain("LiteRtDestroyCompiledResult", made)
            raise UnseenError("compiling does not fail, even for an unknown op")
        if made:
            raise BrokenRuleError(f"{_COMPILE} fails, but returns a result")
        with plugin.compile([taken]):
            pass


def _modules(subject: PluginSubject) -> None:
    with subject.compiled() as result:
        if not result.num_modules():
            raise BrokenRuleError("a result of one partition has 0 byte code modules")


def _nothing(subject: PluginSubject) -> None:
    with subject.plugin():
        number = ffi.new("LiteRtParamIndex*", 77)
        status = subject.vendor.call(_NUM_MODULES, ffi.NULL, number)
        expect_status(f"{_NUM_MODULES}(NULL)", status, Status.OK)
        if number[0]:
            raise BrokenRuleError(f"{_NUM_MODULES}(NULL) gives {number[0]} modules")


def _byte_code(subject: PluginSubject) -> None:
    with subject.compiled() as result:
        if result.modules() != result.modules():
            raise BrokenRuleError(
                "the bytes of a byte code module differ when the host gets them again"
            )


def _result_index(subject: PluginSubject) -> None:
    with subject.compiled() as result:
        number = result.num_modules()
        answers = ffi.new("const void**"), ffi.new("size_t*")
        for index in (number, number + _FAR_INDEX):
            status = subject.vendor.call(_BYTE_CODE, result.handle, index, *answers)
            expect_no_index(_BYTE_CODE, index, number, status)


def _calls(subject: PluginSubject) -> None:
    for number in (1, 2):
        with subject.compiled(number) as result:
            if result.num_calls() != number:
                raise BrokenRuleError(
                    f"{number} subgraphs must be compiled to {number} calls, not {result.num_calls()}"
                )


def _call_info(subject: PluginSubject) -> None:
    with subject.compiled(2) as result:
        infos = [result.call_info(index) for index in range(2)]
        for index, (name, module) in enumerate(infos):
            if module >= (number := result.num_modules()):
                raise BrokenRuleError(f"call {index} is in module {module} of {number}")
            if b"\0" in name:
                raise BrokenRuleError(
                    f"the name of call {index} contains a zero byte: {name!r:.80}"
                )
        if infos[0] == infos[1]:
            raise BrokenRuleError(
                f"both calls call function {infos[0][0]!r:.80} of module {infos[0][1]}"
            )


def _dynamic_output(subject: PluginSubject) -> None:
    if not subject.vendor.has(IS_OUTPUT_DYNAMIC):
        raise UnseenError(f"the plugin does not export {IS_OUTPUT_DYNAMIC}")
    for model in subject.each_model():
        for partition in subject.partitions(model):
            with subject.plugin() as plugin, plugin.compile([partition]) as result:
                for index, tensor in enumerate(partition.outputs):
                    is_dynamic = result.is_dynamic(0, index)
                    what = f"{model.name}: output {index}, {tensor.type},"
                    if is_dynamic and tensor.type.layout.is_static:
                        raise BrokenRuleError(
                            f"{what} has a fixed shape, but the plugin says that the shape is "
                            "dynamic"
                        )
                    if result.is_dynamic(0, index) != is_dynamic:
                        raise BrokenRuleError(
                            f"the result for {what} changes when the host calls the function again"
                        )


def _result_destroy_null(subject: PluginSubject) -> None:
    subject.vendor.call_plain("LiteRtDestroyCompiledResult", ffi.NULL)


_LOADED = ("plugin.symbols", "create.ok", "create.again")
# A model with which the plugin ends the process is skipped from then on; one more failing model is reported.
_BASE = (*_LOADED, "partition.ops (one model)")
_COMPILED = (*_BASE, "compile.ok (one model)")
_EACH = (*_LOADED, "partition.ops")

RULES = Rules(
    Stage.WORK,
    (
        Check("partition.ops", _partition_ops, "each model", _LOADED),
        Check("partition.ops", _partition_one, "one model", _LOADED),
        Check("partition.soc_model", _partition_soc_model, needs=_BASE),
        Check("partition.repeatable", _partition_repeatable, needs=_EACH),
        Check("partition.reads_only", _reads_only, needs=_EACH),
        Check("refusal.text", _refusal_text, needs=_EACH),
        Check("refusal.none", _refusal_none, needs=_BASE),
        Check("compile.ok", _compile, "each model", _EACH),
        Check("compile.ok", partial(_compile, number=1), "one model", _BASE),
        Check("create.context", _old_context, needs=_COMPILED),
        *(
            Check("create.slot_failure", partial(_slot_failure, slot=slot), slot, _COMPILED)
            for slot in _SLOTS
        ),
        Check("compile.soc_model", _compile_soc_model, needs=_COMPILED),
        Check("destroy.results", _destroy_results, needs=_COMPILED),
        Check("result.modules", _modules, needs=_COMPILED),
        Check("result.byte_code", _byte_code, needs=(*_COMPILED, "result.modules")),
        Check("compile.repeatable", _compile_repeatable, needs=(*_COMPILED, "result.byte_code")),
        Check("result.index", _result_index, needs=(*_COMPILED, "result.modules")),
        Check("compile.failure", _compile_failure, needs=(*_COMPILED, "compile.repeatable")),
        Check("result.calls", _calls, needs=_COMPILED),
        Check("result.call_info", _call_info, needs=(*_COMPILED, "result.modules", "result.calls")),
        Check(
            "result.dynamic_output", _dynamic_output, needs=(*_EACH, "compile.ok", "result.calls")
        ),
        Check("result.nothing", _nothing, needs=_LOADED),
        Check("result.destroy_null", _result_destroy_null, needs=_LOADED),
    ),
)
