"""Runs an untrusted model, with its CPU ops and NPU calls, in a sandboxed child process.

If the child process crashes, hangs, ends or is taken over, only the current call and all later calls fail; this
process is not harmed. The host process checks every reply of the child process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from dispatch.isolation.plain import type_from_plain, type_to_plain
from dispatch.isolation.table_process import TableProcess
from dispatch.shared_memory import SharedMemory
from dispatch.tensor_buffer import TensorBuffer
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import ChildEndedError, LiteRtError
from litert.core.status import Status
from litert.core.tensor_type import RankedTensorType
from litert.host.serving import OP_WORD
from litert.model.blob import MappedFile
from litert.model.kernel_files import dump_at_load
from litert.options import Options
from litert.served_model import KERNELS, OPS, ROOM

if TYPE_CHECKING:
    import numpy as np

_Read = TypeVar("_Read")
_TARGET = "litert.served_model:serve_model"
_DAMAGED = "The file is damaged or malicious: get the file again from its source."
_LIMITED = "Raise the time limits: --build_timeout, --call_timeout, --run_timeout."


class IsolatedModel:
    """A model in a child process, with those methods of `CompiledModel` that a run needs.

    The model is a context manager that ends the child process at the end of the `with` block.
    """

    def __init__(
        self,
        file: MappedFile,
        manufacturer: str,
        environment: EnvironmentOptions,
        options: Options,
        run_timeout_s: float,
    ) -> None:
        """Starts the child process, and loads the model in the child process.

        Args:
          file: The compiled file to run. The caller may close the file after this call.
          manufacturer: Vendor of the NPU calls; "" for a file without NPU calls.
          environment: Environment that gives the folders of dispatch tables.
          options: Options of the model. Options for the compiler have no effect, since the file is compiled
            already.
          run_timeout_s: Time limit for a run, in seconds.

        Raises:
          ChildEndedError: The child process crashes or takes too long.
          LiteRtError: The errors of `CompiledModel.from_file`; UNSUPPORTED, if the options require a sandbox and
            the system has none.
        """
        limits = options.device_limits()
        self._build_timeout_s, self._run_timeout_s = limits.build_timeout_s, run_timeout_s
        self._ops: Sequence[str] = ()
        self._rooms: Sequence[TensorBuffer] = ()
        self._memory = SharedMemory(limits.most_bytes)
        self._kernel_folder = options.dump_kernels
        dispatch_options = options.all_dispatch_options()
        try:
            self._process = TableProcess(
                _TARGET,
                (manufacturer, environment.dispatch_library_path, dispatch_options),
                limits,
                {ROOM: self._make_room, OPS: self._note_ops, KERNELS: self._write_kernels},
                subject="the model's process",
                where=file.path,
                shared=[file.fd, self._memory.fd],
                readable=[f"/proc/self/fd/{file.fd}"],
                is_watched=True,
                describe=self._describe,
            )
        except BaseException:
            self._memory.close()
            raise
        try:
            self._load()
            request = {
                "file": file.fd,
                "path": file.path,
                "memory": self._memory.fd,
                "environment": asdict(environment),
                "accelerators": int(options.hardware_accelerators),
                "cpu_options": asdict(options.cpu_options),
                "dispatch_options": dispatch_options,
                "dumps_kernels": bool(options.dump_kernels),
            }
            self._signatures = self._ask("open", request, _read_signatures)
        except BaseException:
            self.close()
            raise

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Returns the same value as `CompiledModel.get_signature_list`."""
        return self._signatures

    def get_input_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """Returns the same value as `CompiledModel.get_input_tensor_details`."""
        return self._details("input", signature_key)

    def get_output_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """Returns the same value as `CompiledModel.get_output_tensor_details`."""
        return self._details("output", signature_key)

    def run(
        self, inputs: Mapping[str, np.ndarray[Any, Any]], signature: str | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Runs a signature like `CompiledModel.run`, but accepts only arrays as inputs.

        Raises:
          ChildEndedError: The child process crashes or takes too long. The error contains the name of the op or
            NPU call that was running.
          LiteRtError: The same errors as in `CompiledModel.run`.
        """
        types = [
            RankedTensorType.of(ElementType.from_numpy(array.dtype), array.shape)
            for array in inputs.values()
        ]
        buffers = list(map(self._memory.allocate, types))
        given = []
        for (name, array), tensor_type, buffer in zip(inputs.items(), types, buffers, strict=True):
            buffer.array()[...] = array
            given.append([name, type_to_plain(tensor_type), self._memory.find(buffer)])
        try:
            return self._ask("run", [signature, given], self._read_outputs, self._run_timeout_s)
        finally:
            self._rooms = ()

    def close(self) -> None:
        """Ends the child process."""
        self._process.close()
        self._memory.close()

    def __enter__(self) -> IsolatedModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _details(self, kind: str, signature: str) -> dict[str, dict[str, Any]]:
        return self._ask("details", [kind, signature], _read_details)

    def _load(self) -> None:
        try:
            self._process.load()
        except LiteRtError as error:
            raise self._failure(error, error.hint) from error

    def _ask(
        self, call: str, argument: object, read: Callable[[Any], _Read], timeout_s: float = 0
    ) -> _Read:
        try:
            limit_s = timeout_s or self._build_timeout_s
            found: _Read = self._process.service.ask(call, argument, limit_s, read)
            return found
        except ChildEndedError as error:
            hint = _LIMITED if error.status is Status.TIMEOUT_EXPIRED else _DAMAGED
            raise self._failure(error, hint) from error
        except LiteRtError as error:
            raise self._failure(error, error.hint) from error

    def _failure(self, error: LiteRtError, hint: str) -> LiteRtError:
        """Returns an error of the child process with a hint about the memory limit, or with the given hint."""
        hint = self._process.memory_hint(error) or hint
        return type(error)(error.status, error.what, error.where, hint)

    def _make_room(self, types: Any) -> list[int | None]:
        """Allocates memory for the outputs of a run, kept until the host reads them."""
        self._rooms = [self._memory.allocate(_read_type(plain)) for plain in types]
        return list(map(self._memory.find, self._rooms))

    def _note_ops(self, names: Any) -> None:
        self._ops = list(map(str, names))

    def _write_kernels(self, texts: Any) -> None:
        """Writes the source code of kernels to the dump folder that the program has set, if any."""
        if self._kernel_folder:
            dump_at_load(self._kernel_folder, list(map(_read_text, texts)))

    def _read_outputs(self, names: Any) -> dict[str, np.ndarray[Any, Any]]:
        """Returns copies of the outputs, since the child process may still write to their memory."""
        arrays = [room.array().copy() for room in self._rooms]
        return {_read_text(name): array for name, array in zip(names, arrays, strict=True)}

    def _describe(self, call: str) -> str:
        """Describes what the child process was doing outside of NPU calls."""
        if call != "run":
            return call
        number = self._process.service.words[OP_WORD]
        op = self._ops[number - 1] if 0 < number <= len(self._ops) else ""
        return f"stock LiteRT's interpreter, {op}" if op else "stock LiteRT's interpreter"


def _read_text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"expected a text, got {plain!r:.80}")
    return plain


def _read_type(plain: Any) -> RankedTensorType:
    """Reads the type of an array; all sizes in its shape must be known."""
    found = type_from_plain(plain)
    if not all(isinstance(size, int) and size >= 0 for size in found.shape):
        raise ValueError(f"not the shape of an array: {found.shape!r:.80}")
    return RankedTensorType.of(found.element_type, found.shape)


def _read_signatures(plain: Any) -> dict[str, dict[str, list[str]]]:
    return {
        key: {kind: list(map(_read_text, entry[kind])) for kind in ("inputs", "outputs")}
        for key, entry in plain.items()
    }


def _read_details(plain: Any) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "name": _read_text(details["name"]),
            "index": int(details["index"]),
            "dtype": ElementType[details["dtype"].upper()].name.lower(),
            "shape": [int(size) for size in details["shape"]],
        }
        for name, details in plain.items()
    }
