"""The dispatch library under check, with its device contexts, NPU calls and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dispatch.tensor_buffer import TensorBufferRequirements
from litert.abi.definitions import ffi
from litert.abi.tensor_types import new_type
from litert.conformance.case import Case, make_data
from litert.conformance.checks import BrokenRuleError, Check, UnseenError
from litert.conformance.dispatch_host import CheckedBuffer
from litert.conformance.dispatch_table import REGISTER_ASSET, CheckedTable
from litert.conformance.guarded_memory import GuardedMemory
from litert.conformance.vendor_calls import VendorSubject, expect_ok
from litert.core.tensor_type import RankedTensorType

KINDS = ("input", "output")

_ML_MODEL = 2
_ALL_SCHEDULING_FIELDS = 15


class CheckedDevice:
    """A context manager for a device context with registered assets."""

    def __init__(self, table: CheckedTable, assets: Mapping[str, bytes]) -> None:
        """Creates the device context and registers the assets in order."""
        self.table = table
        self._memory: list[GuardedMemory] = []
        self._names: list[Any] = []
        made = ffi.new("LiteRtDispatchDeviceContext*")
        table.succeed("device_context_create", table.host.table, table.options, made)
        if not made[0]:
            raise BrokenRuleError("device_context_create returns OK, but no device context")
        self.handle = made[0]
        if table.has(REGISTER_ASSET):
            for name, data in assets.items():
                expect_ok(f"LiteRtDispatchRegisterAsset('{name}')", self.offer(name, data))

    def __enter__(self) -> CheckedDevice:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        status = self.table.call("device_context_destroy", self.handle)
        for memory in self._memory:  # the assets are no longer needed
            memory.make_forbidden()
        if error is None:
            expect_ok("device_context_destroy", status)

    def offer(self, name: str, data: bytes, *, offset: int = 0, forget_name: bool = False) -> int:
        """Registers an asset; the bytes live as long as this object, but `forget_name` frees the name at once."""
        passed = ffi.new("char[]", name.encode())
        buffer = self.keep(data, offset)
        status: int = self.table.call_plain(REGISTER_ASSET, self.handle, passed, buffer)
        if forget_name:
            passed[0 : len(passed) - 1] = b"?" * (len(passed) - 1)
        self._names.append(passed)
        return status

    def run(self, case: Case, byte_code: Any = None, data: Sequence[bytes] = ()) -> list[bytes]:
        """Makes an NPU call, runs it once, and returns the outputs; `byte_code` is as in `CheckedCall`."""
        with CheckedCall(self, case, byte_code) as call:
            call.attach_all()
            return call.run(data or case.data)

    def keep(self, data: bytes, offset: int = 0, alignment: int = 64) -> Any:
        """Copies bytes to a `LiteRtMemBuffer*`, which is valid as long as this device context."""
        memory = GuardedMemory(offset + len(data), alignment)
        memory.view[offset:] = data
        memory.make_read_only()
        self._memory.append(memory)
        buffer = ffi.new("LiteRtMemBuffer*")
        buffer.fd = -1
        buffer.base_addr = ffi.cast("void*", memory.address)
        buffer.offset, buffer.size = offset, len(data)
        return buffer


@dataclass(slots=True, eq=False)
class CheckedCall:
    """A context manager for an invocation context with attached buffers.

    Attributes:
      byte_code: A `LiteRtMemBuffer*` with byte code. None for the byte code of the case, which is then copied to
        an aligned address.
      inputs, outputs: The attached buffers, by the index of the input or output.
      retired: Buffers that are still registered, but no longer attached.
      wanted: The vendor's buffer requirements for each input and output, by kind and index.
    """

    device: CheckedDevice
    case: Case
    byte_code: Any = None
    context: Any = None
    inputs: list[CheckedBuffer] = field(default_factory=list)
    outputs: list[CheckedBuffer] = field(default_factory=list)
    retired: list[CheckedBuffer] = field(default_factory=list)
    wanted: dict[tuple[str, int], TensorBufferRequirements] = field(default_factory=dict)

    @property
    def table(self) -> CheckedTable:
        """The functions of the vendor's dispatch table."""
        return self.device.table

    def __enter__(self) -> CheckedCall:
        status, self.context = create_invocation(
            self.device, self.case, self.byte_code or self.device.keep(self.case.byte_code)
        )
        expect_ok("invocation_context_create", status)
        if not self.context:
            raise BrokenRuleError("invocation_context_create returns OK, but no invocation context")
        try:
            for kind in KINDS:
                for index, tensor_type in enumerate(self.case.types(kind)):
                    self.wanted[kind, index] = self.require(kind, index, tensor_type)
        except BrokenRuleError:
            self.table.call("invocation_context_destroy", self.context)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        statuses = []
        for name in KINDS:
            for index, buffer in enumerate(self.group(name)):
                slot = f"detach_{name}"
                status = self.table.call(slot, self.context, index, buffer.registered)
                statuses.append((slot, status))
        for buffer in [*self.inputs, *self.outputs, *self.retired]:
            slot = "unregister_tensor_buffer"
            statuses.append((slot, self.table.call(slot, self.device.handle, buffer.registered)))
            self.table.host.drop_buffer(buffer)
        destroy = "invocation_context_destroy"
        statuses.append((destroy, self.table.call(destroy, self.context)))
        if error is None:
            for function, status in statuses:
                expect_ok(function, status)

    def group(self, kind: str) -> list[CheckedBuffer]:
        """Returns the buffers of the inputs (kind "input") or of the outputs (kind "output")."""
        return self.inputs if kind == "input" else self.outputs

    def require(
        self, kind: str, index: int, tensor_type: RankedTensorType
    ) -> TensorBufferRequirements:
        """Gets the vendor's buffer requirements for an input or output."""
        made = ffi.new("LiteRtTensorBufferRequirements*")
        c_type = new_type(tensor_type)
        self.table.succeed(f"get_{kind}_requirements", self.context, index, c_type, made)
        return self.table.host.runtime.take_requirements(made[0])

    def make(self, kind: str, index: int, size: int | None = None) -> CheckedBuffer:
        """Makes a buffer for an input or output; if `size` is None, the buffer has the required size."""
        tensor_type, wanted = self.case.types(kind)[index], self.wanted[kind, index]
        handlers = self.table.api.tensor_buffer_handlers_def
        size = wanted.size if size is None else size
        return self.table.host.make_buffer(tensor_type, wanted, handlers, size)

    def register(self, buffer: CheckedBuffer) -> CheckedBuffer:
        """Registers a buffer with the device context; raises if the vendor refuses the buffer."""
        handle = ffi.new("LiteRtTensorBufferHandle*")
        passed = ffi.cast("LiteRtTensorBuffer", buffer.handle)
        self.table.succeed("register_tensor_buffer", self.device.handle, passed, handle)
        buffer.registered = int(handle[0])
        return buffer

    def attach_all(self) -> None:
        """Makes, registers and attaches a new buffer for each input and output."""
        for kind in KINDS:
            for index in range(len(self.case.types(kind))):
                self.attach(kind, index, self.register(self.make(kind, index)))

    def attach(self, kind: str, index: int, buffer: CheckedBuffer) -> None:
        """Attaches a buffer in place of the buffer that is attached now."""
        group = self.group(kind)
        self.retired += group[index : index + 1]
        group[index : index + 1] = [buffer]
        self.table.succeed(f"attach_{kind}", self.context, index, buffer.registered)

    def run(self, data: Sequence[bytes]) -> list[bytes]:
        """Writes the inputs, runs the NPU call as LiteRT does, and reads the outputs."""
        self.write(data)
        self.prepare_run()
        self.table.succeed("invoke", self.context)
        return self.read()

    def expect(self, expected: Sequence[bytes], finding: str) -> None:
        """Raises an error with the text `finding` if a run with the case's data gives unexpected outputs."""
        if self.run(self.case.data) != expected:
            raise BrokenRuleError(finding)

    def write(self, data: Sequence[bytes]) -> None:
        """Writes data to the buffers of the inputs."""
        for buffer, values in zip(self.inputs, data, strict=True):
            buffer.write(values)

    def read(self) -> list[bytes]:
        """Returns the bytes of the outputs; raises if the vendor has written outside of a buffer."""
        for buffer in [*self.inputs, *self.outputs, *self.retired]:
            if buffer.memory is not None and (damage := buffer.memory.find_damage()):
                raise BrokenRuleError(f"after a run {damage}")
        return [
            buffer.read()[: tensor_type.size_bytes]
            for buffer, tensor_type in zip(self.outputs, self.case.outputs, strict=True)
        ]

    def prepare_run(self) -> None:
        """Calls those optional functions of the vendor that LiteRT calls before each run."""
        if self.table.has("invocation_context_set_scheduling_info"):
            info = ffi.new("LiteRtSchedulingInfo*")
            info.fields_mask = _ALL_SCHEDULING_FIELDS
            self.table.call("invocation_context_set_scheduling_info", self.context, info)
        if self.table.has("invocation_context_set_options"):
            self.table.call("invocation_context_set_options", self.context, ffi.NULL)


def create_invocation(
    device: CheckedDevice, case: Case, byte_code: Any, *, function: str = ""
) -> tuple[int, Any]:
    """Calls `invocation_context_create` for a case; `function`, if given, replaces the case's function.

    Returns:
      The status, and the value that the function wrote to its out argument.
    """
    made = ffi.new("LiteRtDispatchInvocationContext*")
    name = ffi.new("char[]", (function or case.function).encode())
    status = device.table.call(
        "invocation_context_create",
        device.table.host.table,
        device.handle,
        _ML_MODEL,
        byte_code,
        name,
        len(case.inputs),
        len(case.outputs),
        made,
    )
    return status, made[0]


@dataclass(eq=False)
class DispatchSubject(VendorSubject[CheckedTable]):
    """A vendor's dispatch library under check.

    Attributes:
      cases: NPU calls that the vendor's own compiler made; empty if the vendor has no compiler plugin.
      left: Reasons why no op of a model runs on the NPU, by the model's name.
      tolerance: Largest accepted error of float outputs; see `find_difference`.
      wait_s: Time limit for waiting for an event, in seconds.
    """

    cases: Sequence[Case] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 0.01
    wait_s: float = 30
    _is_initialized: bool = False

    @property
    def table(self) -> CheckedTable:
        """Returns the dispatch table; `initialize` may not have been called yet."""
        if not self.vendor.api.interface:
            raise BrokenRuleError("`interface` is NULL")
        return self.vendor

    def ready(self) -> CheckedTable:
        """Returns the dispatch table after `initialize` was called."""
        table = self.table
        if not self._is_initialized:
            table.succeed("initialize", table.host.table, ffi.NULL, table.options)
            self._is_initialized = True
        return table

    def need(self, *slots: str, missing: str = "the slot is NULL") -> None:
        """Raises `UnseenError` if one of the slots is NULL."""
        if not all(map(self.table.has, slots)):
            raise UnseenError(missing)

    @property
    def case(self) -> Case:
        """Returns the NPU call that most checks use; raises `UnseenError` if there is none."""
        if not self.cases:
            raise UnseenError(
                "there is no byte code to run, because the vendor's compiler did not make any"
            )
        return self.cases[0]

    def device(self, case: Case | None = None) -> CheckedDevice:
        """Makes a device context, and registers the assets of a case."""
        return CheckedDevice(self.ready(), {} if case is None else case.assets)

    @contextmanager
    def call(self, case: Case | None = None) -> Iterator[CheckedCall]:
        """Makes an NPU call that is ready to run, in a new device context."""
        case = case or self.case
        with self.device(case) as device, CheckedCall(device, case) as call:
            call.attach_all()
            yield call

    def run(self, case: Case | None = None, data: Sequence[bytes] = ()) -> list[bytes]:
        """Runs a case in a new device context, and returns the outputs; `data` replaces the case's inputs."""
        case = case or self.case
        with self.device(case) as device:
            return device.run(case, data=data)

    def other_data(self, seed: int) -> list[bytes]:
        """Makes other random inputs for the first case."""
        return [make_data(tensor_type, seed) for tensor_type in self.case.inputs]


def for_each_kind(
    rule: str, run: Callable[..., None], needs: Sequence[str], case: str = "{}"
) -> list[Check[DispatchSubject]]:
    """Makes two checks of a rule, one for inputs and one for outputs; `run` gets the argument `kind`."""
    return [Check(rule, partial(run, kind=kind), case.format(kind), needs) for kind in KINDS]
