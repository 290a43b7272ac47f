"""Tests vendors that each break a rule: loading the table or a call fails with an error that names the rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dispatch.api import (
    AsyncInterface,
    Capability,
    Dispatch,
    Event,
    HostInvocationContext,
    Metric,
    TensorBufferRequirements,
    is_filled,
)
from dispatch.table_check import check_table
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import ApiVersion
from tests.dispatch.strict_vendor import bind_all, open_call, open_session


class Sound(Dispatch[Any, Any]):
    """A minimal vendor; each class derived from it breaks one rule."""

    vendor_id = "Acme"

    def device_context_create(self, options: object) -> Any:
        return "device"

    def invoke(self, invocation_context: Any) -> None:
        pass


class SoundAsync(AsyncInterface[Any]):
    def attach_input_event(self, invocation_context: Any, index: int, event: Event) -> None:
        pass

    def invoke_async(self, invocation_context: Any) -> Any:
        return []


def make(base: type = Sound, **attributes: object) -> Any:
    """Returns a table with these attributes."""
    return type("AcmeDispatch", (base,), attributes)()


def returns(value: object) -> Callable[..., Any]:
    return lambda *_: value


class WithoutInvoke(Dispatch[Any, Any]):
    vendor_id = "Acme"

    def device_context_create(self, options: object) -> Any:
        return "device"


class WithoutDevice(Dispatch[Any, Any]):
    vendor_id = "Acme"

    def invoke(self, invocation_context: Any) -> None:
        pass


class WithoutId(Dispatch[Any, Any]):
    pass


async def run_later(self: object, invocation_context: object) -> None:
    pass


ASYNC = Capability.BASIC | Capability.ASYNC

BROKEN_TABLES = {
    "a class": (
        Sound,
        "DISPATCH is the class Sound, not an instance of the class (LiteRtDispatch_Acme.py). "
        "Write DISPATCH = Sound().",
    ),
    "no table": ({"invoke": print}, "DISPATCH has type dict, which is not derived from Dispatch"),
    "None": (None, "DISPATCH has type NoneType, which is not derived from Dispatch"),
    "a later minor version": (
        make(api_version=ApiVersion(0, 2, 0)),
        "WRONG_VERSION: the dispatch table has version 0.2.0 of the dispatch API, "
        "but this host needs version 0.1.0",
    ),
    "a later major version": (make(api_version=ApiVersion(1, 1, 0)), "has version 1.1.0"),
    "a version as text": (
        make(api_version="0.1.0"),
        "api_version of the dispatch table is '0.1.0'",
    ),
    "half a version": (make(api_version=(0, 1)), r"api_version of the dispatch table is (0, 1)"),
    "no vendor id": (WithoutId(), "vendor_id of the dispatch table is None"),
    "an empty vendor id": (make(vendor_id=""), "vendor_id of the dispatch table is ''"),
    "a build id of bytes": (make(build_id=b"1"), "build_id of the dispatch table is b'1'"),
    "no device_context_create": (WithoutDevice(), "has no function 'device_context_create'"),
    "no invoke": (WithoutInvoke(), "the dispatch table has no function 'invoke'"),
    "an empty slot": (
        make(register_asset=None),
        "the attribute 'register_asset' of the dispatch table is None, not a function",
    ),
    "a slot that is no function": (
        make(invoke=3),
        "the attribute 'invoke' of the dispatch table is 3, not a function",
    ),
    "too few arguments": (
        make(register_asset=lambda self, name, buffer: None),
        "the function 'register_asset' of the dispatch table does not accept the host's 3 arguments",
    ),
    "too many arguments": (
        make(invoke=lambda self, context, options: None),
        "the function 'invoke' of the dispatch table does not accept the host's 1 argument ",
    ),
    "a coroutine": (
        make(invoke=run_later),
        "the function 'invoke' of the dispatch table uses async or yield",
    ),
    "no capabilities": (make(capabilities=Capability.NONE), "but must include BASIC"),
    "capabilities of text": (
        make(capabilities="BASIC"),
        "capabilities of the dispatch table are 'BASIC'",
    ),
    "asynchronous without that part": (
        make(capabilities=ASYNC),
        "the dispatch table has Capability.ASYNC, but no async_interface",
    ),
    "that part without the capability": (
        make(async_interface=SoundAsync()),
        "the dispatch table has an async_interface, but no Capability.ASYNC",
    ),
    "graphs without that part": (
        make(capabilities=Capability.BASIC | Capability.GRAPH),
        "the dispatch table has Capability.GRAPH, but no graph_interface",
    ),
    "a part that is a class": (
        make(capabilities=ASYNC, async_interface=SoundAsync),
        "not an instance of a class derived from AsyncInterface",
    ),
    "a part with too few arguments": (
        make(
            capabilities=ASYNC,
            async_interface=make(SoundAsync, invoke_async=lambda self: None),
        ),
        "the function 'invoke_async' of the dispatch table does not accept the host's 1 argument ",
    ),
    "metrics that never stop": (
        make(start_metrics_collection=returns(None)),
        "has only one of the functions start_metrics_collection and stop_",
    ),
}


@pytest.mark.parametrize("name", BROKEN_TABLES)
def test_a_broken_table_is_refused_before_anything_runs(name: str) -> None:
    table, sentence = BROKEN_TABLES[name]
    with pytest.raises(LiteRtError) as error:
        check_table(table, "LiteRtDispatch_Acme.py")
    assert sentence in str(error.value)
    assert error.value.where == "LiteRtDispatch_Acme.py"
    assert error.value.hint
    is_version = sentence.startswith("WRONG") or "has version" in sentence
    assert error.value.status is (Status.WRONG_VERSION if is_version else Status.DYNAMIC_LOADING)


@pytest.mark.parametrize(
    "table",
    {
        "the least": make(),
        "a later patch": make(api_version=ApiVersion(0, 1, 9)),
        "a plain tuple": make(api_version=(0, 1, 0)),
        "any arguments": make(register_asset=lambda self, *args: None),
        "further arguments with defaults": make(invoke=lambda self, context, times=1: None),
        "both parts of asynchronous runs": make(capabilities=ASYNC, async_interface=SoundAsync()),
    }.values(),
)
def test_a_sound_table_is_taken(table: Any) -> None:
    assert check_table(table, "LiteRtDispatch_Acme.py") is table


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "regsiter_asset",
            "the host never calls the method 'regsiter_asset'. Did you mean 'register_asset'?",
        ),
        ("unregister_buffers", ""),
        ("invoke_all", ""),
        ("_regsiter_asset", ""),
    ],
)
def test_a_misspelt_function_is_noticed(
    name: str, warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    table = make()
    setattr(table, name, returns(None))
    check_table(table, "LiteRtDispatch_Acme.py")
    assert (warning in caplog.text) if warning else not caplog.text


def raises(self: Any) -> Any:
    raise RuntimeError("the driver is not loaded")


def test_what_a_vendor_has_beside_the_table_is_not_looked_at() -> None:
    table = make(driver=property(raises))
    assert check_table(table, "LiteRtDispatch_Acme.py") is table


@pytest.mark.parametrize("attribute", ["api_version", "vendor_id", "capabilities", "invoke"])
def test_a_table_that_cannot_be_read_is_refused(attribute: str) -> None:
    fields: dict[str, Any] = {attribute: property(raises)}
    with pytest.raises(LiteRtError, match="RuntimeError: the driver is not loaded") as error:
        check_table(make(**fields), "LiteRtDispatch_Acme.py")
    assert error.value.status is Status.DYNAMIC_LOADING


def use(vendor: Dispatch[Any, Any]) -> None:
    with open_session(vendor, ["Op"]) as session:
        call = open_call(session)
        bind_all(call)
        call.start_metrics()
        call.invoke_async()
        call.invoke()
        call.stop_metrics()


def requires(**fields: Any) -> Any:
    """Returns a vendor that requires memory with these attributes."""
    requirements = TensorBufferRequirements(**{"size": 16, **fields})
    return make(get_input_requirements=returns(requirements))


def measures(value: object) -> Any:
    return make(start_metrics_collection=returns(None), stop_metrics_collection=returns(value))


def runs_async(value: object) -> Any:
    return make(capabilities=ASYNC, async_interface=make(SoundAsync, invoke_async=returns(value)))


NONSENSE = {
    "no device": (
        make(device_context_create=returns(None)),
        "the function returned None (vendor 'Acme', in device_context_create)."
        " This is a bug in the vendor's code; report it to the vendor. The function must return the object",
    ),
    "no context": (
        make(invocation_context_create=returns(None)),
        "the function returned None (vendor 'Acme', in invocation_context_create of 'f')",
    ),
    "no handle": (
        make(register_tensor_buffer=returns(None)),
        "the function returned None (vendor 'Acme', in register_tensor_buffer)",
    ),
    "no requirements": (
        make(get_output_requirements=returns(None)),
        "the vendor returned None, not TensorBufferRequirements "
        "(vendor 'Acme', in get_output_requirements of output 0 of 'f')",
    ),
    "requirements of another type": (
        make(get_input_requirements=returns(16)),
        "the vendor returned 16, not TensorBufferRequirements",
    ),
    "a negative size": (requires(size=-1), "the required size is -1, not a number of bytes"),
    "a size of text": (requires(size="16"), "the required size is '16', not a number of bytes"),
    "no types": (requires(supported_types=()), "supported_types is (), not a list of at least one"),
    "a type that is none": (requires(supported_types="host"), "supported_types is 'host'"),
    "too many strides": (
        requires(strides=(4, 4)),
        "the vendor requires 2 strides, but tensor<4xf32> has 1 dimension",
    ),
    "strides of text": (
        requires(strides=("4",)),
        "the required strides are ('4',), not a list of whole numbers",
    ),
    "an alignment of 0": (requires(alignment=0), "the required alignment is 0, not a power of two"),
    "an alignment of 48": (
        requires(alignment=48),
        "the required alignment is 48, not a power of two",
    ),
    "a shape of another rank": (
        requires(shape=(2, 2)),
        "the returned shape (2, 2) does not fit tensor<4xf32>",
    ),
    "a shape of another tensor": (
        requires(shape=(5,)),
        "the returned shape (5,) does not fit tensor<4xf32>",
    ),
    "a shape of text": (requires(shape="4"), "the returned shape '4' does not fit tensor<4xf32>"),
    "a size that the shape exceeds": (
        requires(size=12, shape=(4,)),
        "the returned size is 12 bytes, but the returned shape [4] needs 16 bytes",
    ),
    "memory that the host has not": (
        requires(supported_types=(4, 2)),
        "its buffer type is HOST_MEMORY, but the vendor supports only DMA_BUF, AHWB (input 0 of 'f')",
    ),
    "strides that the host has not": (
        requires(strides=(8,)),
        "it is in row-major order, but strides of [8] elements are required (input 0 of 'f')",
    ),
    "a context that the defaults do not know": (
        make(invocation_context_create=returns("context")),
        "the default attach_input needs a HostInvocationContext, but got str",
    ),
    "a handle that the defaults do not know": (
        make(register_tensor_buffer=returns(7)),
        "the default attach_input needs a TensorBuffer as handle, but got int",
    ),
    "no events": (runs_async(None), "the function returned None, not a list of 1 event"),
    "too few events": (runs_async([]), "the function returned [], not a list of 1 event"),
    "events that are none": (runs_async([1]), "the function returned [1], not a list of 1 event"),
    "no metrics": (measures(None), "the vendor returned None, not a sequence of Metric"),
    "metrics of another type": (measures([("time", 1)]), "not a sequence of Metric"),
    "a metric without a name": (measures([Metric(1, 1)]), "not a sequence of Metric"),  # type: ignore[arg-type]
    "metrics that it has not": (make(), "the vendor does not support metrics (vendor 'Acme', "),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_found_at_the_call_that_returned_it(name: str) -> None:
    vendor, sentence = NONSENSE[name]
    if name != "metrics that it has not" and not is_filled(vendor, "start_metrics_collection"):
        vendor.start_metrics_collection = vendor.stop_metrics_collection = returns([])
    with pytest.raises(LiteRtError) as error:
        use(vendor)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_vendor_may_derive_its_context() -> None:
    class Context(HostInvocationContext):
        pass

    def create(self: object, *args: Any) -> Context:
        device, _, byte_code, name, inputs, outputs = args
        return Context(device, byte_code, name, [None] * inputs, [None] * outputs)

    def invoke(self: object, context: Context) -> None:
        context.outputs[0][:] = context.inputs[0] * 2

    with open_session(make(invocation_context_create=create, invoke=invoke)) as session:
        call = open_call(session)
        source, target = bind_all(call)
        source.array()[:] = 4
        call.invoke()
        assert list(target.array()) == [8, 8, 8, 8]
