"""Loads libraries of CPU layers (`litert_npu/cpu_layer.h`), and checks those of their results that can be checked.

A shared object is loaded from bytes, not from a file, because an asset has no path, and because other users may be
able to change a file.
"""

from __future__ import annotations

import _ctypes
import atexit
import ctypes
import logging
import os
import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from enum import IntEnum
from typing import Any

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.atomic_file import temporary_folder
from vendor_reference.cpu_layer.definitions import ffi
from vendor_reference.cpu_layer.elf import check_shared_object
from vendor_reference.cpu_layer.marshal import (
    ConfigMemory,
    MessageRoom,
    OpMemory,
    TensorPlace,
    place_tensors,
    set_shapes,
    simplest_config,
    type_values,
)
from vendor_reference.executable.cpu_op import CpuConfig, CpuOp

_LOG = logging.getLogger(__name__)
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
_ENTRY = "litert_npu_get_cpu_layer_library"
_VERSION: int = ffi.integer_const("LITERT_NPU_CPU_LAYER_VERSION")
_TABLE = "LiteRtNpuCpuLayerLibrary"
_OPTIONAL = ("set_log_callback", "get_output_shapes", "destroy", "release")
_LEAST_SIZE: int = ffi.offsetof(_TABLE, "release")
_MOST = 1 << 10  # limit of types, implementations and configurations: more are a mistake
_HINT = (
    "Correct the library. The header litert_npu/cpu_layer.h describes its functions; to print the header's "
    "folder, run python -m vendor_reference.cpu_layer."
)
_LOAD_HINT = (
    "The shared object may depend only on system libraries, and must define all other functions "
    "that it uses."
)


class CallStatus(IntEnum):
    """Statuses that can be returned by the functions of a library of CPU layers."""

    OK = 0
    ERROR = 1
    INVALID_ARGUMENT = 2
    NOT_IMPLEMENTED = 3
    OUT_OF_MEMORY = 4


_STATUSES = {
    CallStatus.INVALID_ARGUMENT: Status.INVALID_ARGUMENT,
    CallStatus.NOT_IMPLEMENTED: Status.UNSUPPORTED,
    CallStatus.OUT_OF_MEMORY: Status.MEMORY_ALLOCATION_FAILURE,
}


class ConfigurationRefusedError(Exception):
    """Raised if the library's function `init` does not accept a configuration.

    Attributes:
      proposed: Configuration that the library proposes; None if the library has not changed the given
        configuration.
    """

    def __init__(self, said: str, proposed: CpuConfig | None) -> None:
        super().__init__(said)
        self.proposed = proposed


class CpuLayerLibrary:
    """A loaded library of CPU layers; `table` contains the library's functions until the library is closed."""

    def __init__(self, data: memoryview, where: str) -> None:
        """Loads a shared object, and reads its function table; `where` is the file name for error messages.

        Raises:
          LiteRtError: DYNAMIC_LOADING, if the shared object cannot be loaded; NOT_FOUND, if the entry function is
            missing; UNSUPPORTED_RUNTIME_VERSION, if the library has another interface version; INVALID_ARGUMENT,
            if the file is not a shared object.
        """
        self._where = where
        self._loaded = _load_shared_object(data, where)
        self.open()

    def open(self) -> None:
        """Reads the library's function table.

        This happens when the library is loaded, and when a closed library that is still in memory is used again.
        """
        where = self._where
        try:
            entry = getattr(self._loaded.functions, _ENTRY)
        except AttributeError:
            raise LiteRtError(
                Status.NOT_FOUND, f"the library exports no function '{_ENTRY}'", where, _HINT
            ) from None
        entry.restype = ctypes.c_void_p
        entry.argtypes = (ctypes.c_uint32,)
        self.table = self._check_table(entry(_VERSION))
        self.name = self._text(self.table.name, "the library's name is")
        self.version = self._text(self.table.version, "the library's version is")
        self._lock = threading.Lock()
        self._kernels: weakref.WeakSet[Kernel] = weakref.WeakSet()
        if self.table.set_log_callback:
            self.table.set_log_callback(_log, ffi.NULL)
            atexit.register(self._silence)  # its own threads may outlive the interpreter

    def __str__(self) -> str:
        return f"library '{self.name}' (version {self.version})"

    @property
    def has_release(self) -> bool:
        """Returns whether the library can be closed; a library without `release` stays loaded."""
        has_function: bool = self.table.size > _LEAST_SIZE and bool(self.table.release)
        return has_function

    def close(self) -> None:
        """Ends the library's kernels, and frees the library's memory.

        The library is unloaded if possible; otherwise it can be opened again.
        """
        if self.table is None or not self.has_release:
            return
        for kernel in list(self._kernels):
            kernel.end()
        self.table.release()
        atexit.unregister(self._silence)
        self.table = None
        self._loaded.close()

    @property
    def is_loaded(self) -> bool:
        """Returns whether the library is still in memory; some libraries cannot be unloaded."""
        return self._loaded.is_loaded

    def _silence(self) -> None:
        self.table.set_log_callback(ffi.NULL, ffi.NULL)

    def layer_types(self) -> Sequence[str]:
        """Returns the names of the layer types in the library."""
        count = self._count(self.table.get_num_layer_types(), "get_num_layer_types")
        if not count:
            raise self._lie("get_num_layer_types returns 0, but must return at least 1")
        return [
            self._text(self.table.get_layer_type(i), f"get_layer_type({i}) returns")
            for i in range(count)
        ]

    def output_shapes(
        self, op: CpuOp, known: Sequence[Sequence[int]]
    ) -> Sequence[tuple[int, ...]] | None:
        """Returns the shapes of an op's outputs; None if the library has no function for shapes.

        Args:
          op: Op whose input shapes are used; its output shapes are ignored.
          known: Shapes of the outputs in the model, with -1 for unknown sizes.
        """
        if not self.table.get_output_shapes:
            return None
        patterned = op.with_output_shapes(known)
        memory, message = OpMemory(patterned), MessageRoom()
        outputs = [type_values(o.tensor_type) for o in patterned.outputs]
        types = ffi.new("LiteRtNpuTensorType[]", outputs)
        with self._lock:
            status = self.table.get_output_shapes(memory.struct, types, message.struct)
        self.check(status, "get_output_shapes", message, op)
        shapes = []
        for index, (struct, shape) in enumerate(zip(types, known, strict=True)):
            dims = tuple(struct.dims[0 : len(shape)])
            call = "get_output_shapes returns"
            if struct.rank != len(shape):
                raise self._lie(
                    f"{call} rank {struct.rank} for output {index}, but the output has rank "
                    f"{len(shape)}"
                )
            if any(not 0 <= d < 2**31 for d in dims):
                raise self._lie(
                    f"{call} the sizes {list(dims)} for output {index}, but each size must be from "
                    f"0 to {2**31 - 1}"
                )
            shapes.append(dims)
        return shapes

    def implementations(self, op: CpuOp) -> Sequence[str]:
        """Returns the names of the implementations for an op; there is at least one."""
        memory, message = OpMemory(op), MessageRoom()
        call = "get_num_implementations"
        with self._lock:
            count = self.table.get_num_implementations(memory.struct, message.struct)
            if not count:
                raise self._failure(call, CallStatus.NOT_IMPLEMENTED, message, op)
            return [
                self._text(
                    self.table.get_implementation_name(memory.struct, index),
                    f"get_implementation_name({index}) returns",
                )
                for index in range(self._count(count, call))
            ]

    def configurations(self, op: CpuOp, implementation: int) -> Sequence[CpuConfig]:
        """Returns the configurations of an implementation in the library's order; there is at least one."""
        memory, message = OpMemory(op), MessageRoom()
        call = f"get_configuration for implementation {implementation}"
        with self._lock:
            count = self.table.get_num_configurations(memory.struct, implementation)
        if not self._count(count, "get_num_configurations"):
            raise self._lie(
                f"get_num_configurations returns 0 for implementation {implementation}, but must "
                "return at least 1"
            )
        found = []
        for index in range(count):
            config = ConfigMemory(simplest_config(op))
            with self._lock:
                status = self.table.get_configuration(
                    memory.struct, implementation, index, config.struct, message.struct
                )
            self.check(status, call, message, op)
            try:
                found.append(config.read(op))
            except ValueError as error:
                what = f"{call} returns an invalid configuration {index}: {error}"
                raise self._lie(what) from None
        return found

    def init(
        self,
        op: CpuOp,
        implementation: int,
        config: CpuConfig,
        inputs: Sequence[TensorPlace | None],
        outputs: Sequence[TensorPlace],
    ) -> Kernel:
        """Creates a kernel; all layouts of `config` must be fixed, and only constants have data.

        Raises:
          ConfigurationRefusedError: The library does not accept the configuration.
          LiteRtError: The library reports an error; the error contains the library's message.
        """
        memory, message, given = OpMemory(op), MessageRoom(), ConfigMemory(config)
        structs = place_tensors(op.inputs, config.inputs, inputs)
        results = place_tensors(op.outputs, config.outputs, outputs)
        handle = ffi.new("void**")
        with self._lock:
            status = self.table.init(
                memory.struct,
                implementation,
                given.struct,
                structs,
                results,
                handle,
                message.struct,
            )
        if status == CallStatus.NOT_IMPLEMENTED:
            try:
                left = given.read(op)
            except ValueError as error:
                raise self._lie(f"init proposes an invalid configuration: {error}") from None
            raise ConfigurationRefusedError(message.take(), left if left != config else None)
        self.check(status, "init", message, op)
        kernel = Kernel(self, op, handle[0], structs, results)
        self._kernels.add(kernel)
        return kernel

    def check(self, status: int, call: str, message: MessageRoom, op: CpuOp) -> None:
        """Raises an error if `status`, which a library function returned for an op, is not OK."""
        if status != CallStatus.OK:
            raise self._failure(call, status, message, op)

    def _failure(self, call: str, status: int, message: MessageRoom, op: CpuOp) -> LiteRtError:
        said = message.take()
        try:
            known = CallStatus(status)
        except ValueError:
            return self._lie(
                f"{call} returns status {status}, which is not a LiteRtNpuStatus"
                + (f", with the message: {said}" if said else "")
            )
        what = said or f"the library gives no reason, only status {known.name}"
        return LiteRtError(
            _STATUSES.get(known, Status.RUNTIME_FAILURE),
            f"{self} reports an error in its function {call}: {what}",
            f"{self._where}, {op.place}",
        )

    def _check_table(self, address: int | None) -> Any:
        if not address:
            raise self._other_version(
                f"the library does not support interface version {_VERSION}, which is required"
            )
        table = ffi.cast(f"{_TABLE}*", address)
        if table.interface_version != _VERSION or table.size < _LEAST_SIZE:
            raise self._other_version(
                f"the library's interface has version {table.interface_version} ({table.size} "
                f"bytes), but version {_VERSION} ({ffi.sizeof(_TABLE)} bytes) is required"
            )
        for name, _ in ffi.typeof(_TABLE).fields[4:]:
            if name not in _OPTIONAL and not getattr(table, name):
                raise self._lie(f"the library's function table has no function '{name}'")
        return table

    def _other_version(self, what: str) -> LiteRtError:
        hint = (
            "Build the library again, with the header litert_npu/cpu_layer.h of the installed version; to print "
            "the header's folder, run python -m vendor_reference.cpu_layer."
        )
        return LiteRtError(Status.UNSUPPORTED_RUNTIME_VERSION, what, self._where, hint)

    def _text(self, value: Any, what: str) -> str:
        text = _decode(value)
        if not text or not text.isprintable():
            raise self._lie(
                f"{what} {text!r}, but the text must have only printable characters, and at least one"
            )
        return text

    def _count(self, count: int, call: str) -> int:
        if count > _MOST:
            raise self._lie(f"{call} returns {count}, but must return at most {_MOST}")
        return count

    def _lie(self, what: str) -> LiteRtError:
        return LiteRtError(Status.INVALID_ARGUMENT, what, self._where, _HINT)


class Kernel:
    """A kernel that the library's function `init` created; only one thread at a time may use it.

    The kernel ends when this object is deleted.
    """

    def __init__(
        self, library: CpuLayerLibrary, op: CpuOp, handle: Any, inputs: Any, outputs: Any
    ) -> None:
        self._library = library
        self._op = op
        self._handle = handle
        self._message = MessageRoom()
        self._inputs = inputs
        self._outputs = outputs
        self._end: weakref.finalize[..., Kernel] | None = None
        if library.table.destroy:
            self._end = weakref.finalize(self, library.table.destroy, handle)
            self._end.atexit = False  # the process ends anyway

    def end(self) -> None:
        """Ends the kernel; must be called before the library is closed."""
        if self._end is not None:
            self._end()

    def set_shapes(self, op: CpuOp, config: CpuConfig) -> None:
        """Sets the tensors' shapes; with a dynamic batch, the shapes may be smaller than the shapes for `init`."""
        set_shapes(self._inputs, op.inputs, config.inputs)
        set_shapes(self._outputs, op.outputs, config.outputs)

    def execute(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Runs the kernel on tensors at the given addresses.

        The address 0 stands for an empty tensor or an omitted input.
        """
        for structs, addresses in ((self._inputs, inputs), (self._outputs, outputs)):
            for struct, address in zip(structs, addresses, strict=True):
                struct.data = ffi.cast("void*", address)
        status = self._library.table.execute(
            self._handle, self._inputs, self._outputs, self._message.struct
        )
        self._library.check(status, "execute", self._message, self._op)


def _decode(text: Any) -> str:
    """Decodes C's text, which need not be UTF-8; "" for NULL."""
    return str(ffi.string(text), "utf-8", "replace") if text else ""


@ffi.callback("LiteRtNpuLogCallback")  # type: ignore[untyped-decorator]
def _log(user_data: Any, level: int, message: Any) -> None:
    """Writes a library's message to Python's log; a library may call this from its own thread."""
    known = _LEVELS[min(max(level, 0), len(_LEVELS) - 1)]
    _LOG.log(known, "%s", _decode(message).rstrip())


class _SharedObject:
    """A loaded shared object, and the file that it was loaded from, if that is still open."""

    def __init__(self, path: str, fd: int = -1) -> None:
        self.functions = ctypes.CDLL(path)
        self.is_loaded = True
        self._path = path
        self._fd = fd

    def close(self) -> None:
        """Unloads the library, unless it has shared symbols, such as static variables of inline C++ functions.

        The file of a library that stays loaded is needed, see `_load_from_memory`.
        """
        _ctypes.dlclose(self.functions._handle)
        try:
            self.functions = ctypes.CDLL(self._path, mode=os.RTLD_NOLOAD)
        except OSError:
            self.is_loaded = False
            if self._fd >= 0:
                os.close(self._fd)


def _load_shared_object(data: memoryview, where: str) -> _SharedObject:
    check_shared_object(data, where)
    try:
        return _load_from_memory(data)
    except (OSError, AttributeError):  # the system has no such files, or may not execute them
        return _load_from_folder(data, where)


def _load_from_memory(data: memoryview) -> _SharedObject:
    """Loads a library from a file without a name, on Linux.

    The file stays open while the library is loaded: the loader knows libraries by their names, and
    could mistake another file with the same number for this one.
    """
    fd = os.memfd_create("litert-npu-asset", os.MFD_CLOEXEC)
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        return _SharedObject(f"/proc/self/fd/{fd}", fd)
    except BaseException:
        os.close(fd)
        raise


def _load_from_folder(data: memoryview, where: str) -> _SharedObject:
    """Loads a library from a file in a folder that belongs to this user alone, and is removed afterwards."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
        except OSError as error:
            what = f"no folder could be created from which to load the library: {error}"
            raise LiteRtError(Status.FILE_IO, what, where) from error
        path = os.path.join(folder, "asset.so")
        try:
            with open(path, "wb") as file:
                file.write(data)
            return _SharedObject(path)
        except OSError as error:
            what = f"the library cannot be loaded: {str(error).replace(f'{folder}/', '')}"
            raise LiteRtError(Status.DYNAMIC_LOADING, what, where, _LOAD_HINT) from error
