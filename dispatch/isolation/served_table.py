"""Handles the host's requests in a device process by calling the functions of a vendor's dispatch table."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dispatch.api import ExecutableType, is_filled
from dispatch.device_buffer import DeviceBuffer
from dispatch.isolation.mapped_bytes import MappedFiles, MappedTensor
from dispatch.isolation.plain import (
    requirements_to_plain,
    scheduling_from_plain,
    type_from_plain,
    type_to_plain,
)
from dispatch.isolation.table_in_child import load_table
from dispatch.isolation.watched_invoke import watched_invoke
from dispatch.metrics import check_metrics
from dispatch.requirements import ask_requirements, choose_own_type
from dispatch.run_settings import RunSettings
from dispatch.tensor_buffer import BufferType, TensorBuffer, TensorBufferRequirements
from dispatch.vendor import Vendor
from litert.core.environment_options import EnvironmentOptions
from litert.core.tensor_type import RankedTensorType
from litert.core.version import ApiVersion
from litert.host.serving import RING, Handlers, ask_host

Slot = tuple[str, int]
"""An input or output of an NPU call: the kind (`input` or `output`) and the index."""


@dataclass(eq=False)
class _Buffer:
    """A tensor buffer in shared memory.

    Attributes:
      handle: Handle of the vendor's table; None if the buffer is not registered with the table.
    """

    buffer: TensorBuffer
    handle: Any = None


@dataclass(eq=False)
class _Own:
    """Device memory for an input or output, and the shared buffer that it replaces."""

    memory: DeviceBuffer
    handle: Any
    stands_for: _Buffer


@dataclass(eq=False)
class _Call:
    """An invocation context of the vendor's table.

    Attributes:
      own_types: Buffer types and sizes of the inputs and outputs that must be in the vendor's own memory.
      own: Memory of these inputs and outputs.
    """

    context: Any
    place: str
    settings: RunSettings
    invoke: Callable[[], object]
    own_types: dict[Slot, tuple[int, int]] = field(default_factory=dict)
    own: dict[Slot, _Own] = field(default_factory=dict)


def serve_table(fd: int) -> Handlers:
    """Returns the handlers of the host's requests; `fd` is the file descriptor of the shared memory."""
    return _ServedTable(fd).handlers


class _ServedTable:
    """A vendor's table, the objects created with it, and the numbers by which the host refers to the objects."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._calls: dict[int, _Call] = {}
        self._buffers: dict[int, _Buffer] = {}
        names = (
            "load", "initialize", "check_runtime_compatibility", "device_context_create",
            "device_context_destroy", "register_asset", "invocation_context_create",
            "invocation_context_destroy", "get_requirements", "register_tensor_buffer",
            "unregister_tensor_buffer", "attach", "detach", "set_settings", "invoke_tapped",
            "start_metrics_collection", "stop_metrics_collection", "kernel_texts", RING,
        )  # fmt: skip
        self.handlers: Handlers = {name: getattr(self, f"_{name}") for name in names}

    def _load(self, argument: Sequence[Any]) -> str:
        table = load_table(*argument)
        assert table is not None
        self._table = table
        self._vendor = Vendor(table)
        return table.host_side

    def _initialize(self, argument: Sequence[Any]) -> object:
        self._memory_fd, environment, options = argument
        self._files = MappedFiles(self._memory_fd)
        self._vendor.call("initialize", EnvironmentOptions(**environment), options)
        table = self._table  # a library's id is known after its initialization
        optional = ("set_scheduling_info", "set_options")
        return {
            "vendor_id": table.vendor_id,
            "build_id": table.build_id,
            "can_reshape": table.can_reshape,
            "filled": [name for name in optional if is_filled(table, name)],
        }

    def _check_runtime_compatibility(self, argument: Sequence[Any]) -> None:
        version, environment, options = argument
        self._vendor.call(
            "check_runtime_compatibility",
            ApiVersion(*version),
            EnvironmentOptions(**environment),
            options,
        )

    def _device_context_create(self, options: Mapping[str, str]) -> None:
        self._device = self._vendor.create("device_context_create", options)

    def _device_context_destroy(self, _: None) -> None:
        self._vendor.call("device_context_destroy", self._device)

    def _register_asset(self, argument: Sequence[Any]) -> None:
        name, place = argument
        bytes_ = self._files.find(place)
        self._vendor.call("register_asset", self._device, name, bytes_, detail=f" '{name}'")

    def _invocation_context_create(self, argument: Sequence[Any]) -> None:
        number, kind, place, name, num_inputs, num_outputs = argument
        of_this = f" of '{name}'"
        byte_code = self._files.find(place)
        context = self._vendor.create(
            "invocation_context_create",
            self._device,
            ExecutableType(kind),
            byte_code,
            name,
            num_inputs,
            num_outputs,
            detail=of_this,
        )
        settings = RunSettings(self._vendor, context, of_this)
        invoke = self._vendor.bind("invoke", context, detail=of_this)
        watched = watched_invoke(self._vendor, context, name, invoke)
        self._calls[number] = _Call(context, of_this, settings, watched)

    def _kernel_texts(self, place: Sequence[Any]) -> Sequence[str]:
        return list(self._vendor.call("kernel_texts", self._device, self._files.find(place)))

    def _invocation_context_destroy(self, number: int) -> None:
        call = self._calls.pop(number)
        self._vendor.call("invocation_context_destroy", call.context, detail=call.place)

    def _get_requirements(self, argument: Sequence[Any]) -> object:
        number, kind, index, plain = argument
        call, tensor_type = self._calls[number], type_from_plain(plain)
        found = ask_requirements(self._vendor, call.context, kind, index, tensor_type, call.place)
        own_type = choose_own_type(found, self._table.buffer_handlers)
        if own_type is None:
            call.own_types.pop((kind, index), None)
            return requirements_to_plain(found)
        call.own_types[kind, index] = own_type, found.size
        shared = (BufferType.HOST_MEMORY,)
        return requirements_to_plain(
            TensorBufferRequirements(found.size, shared, found.strides, shape=found.shape)
        )

    def _register_tensor_buffer(self, argument: Sequence[Any]) -> None:
        number, plain, offset, size = argument
        mapped = MappedTensor(self._memory_fd, offset, size)
        buffer = TensorBuffer(type_from_plain(plain), mapped.address, size, mapped)
        made = self._buffers[number] = _Buffer(buffer)
        if self._table.buffer_handlers is None:  # otherwise, the vendor may not support host memory
            self._tell_of(made)

    def _unregister_tensor_buffer(self, number: int) -> None:
        found = self._buffers.pop(number)
        if found.handle is not None:
            self._vendor.call("unregister_tensor_buffer", self._device, found.handle)

    def _attach(self, argument: Sequence[Any]) -> None:
        number, kind, index, buffer_number = argument
        call, buffer = self._calls[number], self._buffers[buffer_number]
        if (kind, index) in call.own_types:
            self._attach_own(call, (kind, index), buffer)
            return
        self._tell_of(buffer)
        self._call_slot("attach", call, (kind, index), buffer.handle)

    def _detach(self, argument: Sequence[Any]) -> None:
        number, kind, index, buffer_number = argument
        call, buffer = self._calls[number], self._buffers[buffer_number]
        own = call.own.get((kind, index))
        if own is None:
            if buffer.handle is not None:
                self._call_slot("detach", call, (kind, index), buffer.handle)
        elif own.stands_for is buffer:
            self._detach_own(call, (kind, index))

    def _set_settings(self, argument: Sequence[Any]) -> None:
        number, info, options = argument
        settings = self._calls[number].settings
        if info is not None:
            settings.scheduling_info = scheduling_from_plain(info)
        settings.options = options

    def _ring(self, number: int) -> None:
        """Runs a call."""
        call = self._calls[number]
        if call.settings.are_taken:
            call.settings.give()
        if call.own:
            self._copy_in(call)
            call.invoke()
            self._copy_out(call)
        else:
            call.invoke()

    def _invoke_tapped(self, number: int) -> None:
        call = self._calls[number]
        call.settings.give()
        self._copy_in(call)
        self._vendor.call("invoke_tapped", call.context, self._show, detail=call.place)
        self._copy_out(call)

    def _show(self, name: str, tensor_type: RankedTensorType, data: memoryview) -> None:
        os.pwrite(self._fd, data, 0)
        ask_host("receive", [name, type_to_plain(tensor_type), data.nbytes])

    def _start_metrics_collection(self, argument: Sequence[Any]) -> None:
        number, detail_level = argument
        call = self._calls[number]
        self._vendor.call("start_metrics_collection", call.context, detail_level, detail=call.place)

    def _stop_metrics_collection(self, number: int) -> object:
        call = self._calls[number]
        found = self._vendor.call("stop_metrics_collection", call.context, detail=call.place)
        return [
            [metric.name, metric.value] for metric in check_metrics(self._vendor, found, call.place)
        ]

    def _tell_of(self, made: _Buffer) -> None:
        if made.handle is None:
            made.handle = self._vendor.create("register_tensor_buffer", self._device, made.buffer)

    def _attach_own(self, call: _Call, slot: Slot, buffer: _Buffer) -> None:
        """Attaches device memory, unless suitable memory is already attached."""
        own_type, size = call.own_types[slot]
        tensor_type = buffer.buffer.tensor_type
        own = call.own.get(slot)
        if own is not None and own.memory.buffer_type == own_type and own.memory.size >= size:
            own.memory.tensor_type = tensor_type
            own.stands_for = buffer
            return
        if own is not None:
            self._detach_own(call, slot)
        size = max(size, tensor_type.size_bytes)
        memory = DeviceBuffer(self._vendor, tensor_type, own_type, size)
        handle = self._vendor.create("register_tensor_buffer", self._device, memory)
        call.own[slot] = _Own(memory, handle, buffer)
        self._call_slot("attach", call, slot, handle)

    def _detach_own(self, call: _Call, slot: Slot) -> None:
        own = call.own.pop(slot)
        self._call_slot("detach", call, slot, own.handle)
        self._vendor.call("unregister_tensor_buffer", self._device, own.handle)

    def _call_slot(self, verb: str, call: _Call, slot: Slot, handle: Any) -> None:
        kind, index = slot
        detail = f" {index}{call.place}"
        self._vendor.call(f"{verb}_{kind}", call.context, index, handle, detail=detail)

    def _copy_in(self, call: _Call) -> None:
        """Copies inputs to device memory, and unlocks the memory for the device."""
        for (kind, _), own in call.own.items():
            if kind == "input":
                _copy(own.stands_for.buffer, own.memory)
            own.memory.give()

    def _copy_out(self, call: _Call) -> None:
        for (kind, _), own in call.own.items():
            if kind == "output":
                _copy(own.memory, own.stands_for.buffer)


def _copy(source: TensorBuffer, destination: TensorBuffer) -> None:
    size = min(source.size, destination.size)
    ctypes.memmove(destination.address, source.address, size)
