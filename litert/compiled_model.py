"""Loads and runs models; classes and methods have the same names as in `ai_edge_litert.compiled_model`.

A program written for `ai_edge_litert` runs with this package after its imports are changed. This package adds runs
on arrays by name (`run`), asynchronous runs, buffers that use the caller's memory, and metrics of each NPU call.
Methods raise a `ValueError` where stock LiteRT raises one, and otherwise a `LiteRtError`, which is a subclass of
`RuntimeError`.

Several threads may use one model, which runs their calls one after the other. For parallel runs, load the model
once for each thread.
"""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dispatch.event import Event, JoinedEvent, wait_for_all
from dispatch.worker import Worker
from litert.core.counts import names_text, out_of_range
from litert.core.errors import LiteRtError
from litert.core.interrupts import interrupts_as_they_came
from litert.core.status import Status
from litert.cpu_kernel_mode import CpuKernelMode
from litert.environment import Environment, EnvironmentOptions
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.blob import MappedFile
from litert.options import CpuOptions, GpuOptions, Options
from litert.runtime.loaded_model import REOPEN, LoadedModel
from litert.runtime.loading import load_model
from litert.runtime.metrics import RunMetrics
from litert.runtime.signature import (
    PLACEHOLDER_SIGNATURE,
    SignatureRunner,
    SignatureTensor,
    signature_text,
)
from litert.tensor_buffer import TensorBuffer, type_name

if TYPE_CHECKING:
    from concurrent.futures import Future

    import numpy as np

    from litert.runtime.array_run import ArrayRunner

__all__ = [
    "CompiledModel",
    "CpuKernelMode",
    "CpuOptions",
    "Environment",
    "EnvironmentOptions",
    "GpuOptions",
    "HardwareAccelerator",
    "Options",
    "TensorBuffer",
]

_Item = TypeVar("_Item")
_LOG = logging.getLogger(__name__)


class CompiledModel:
    """A loaded model, ready to run.

    If the model is used as a context manager, it is closed at the end of the `with` block.
    """

    def __init__(self, model: LoadedModel, environment: Environment) -> None:
        """Stores a loaded model. Programs call `from_file` or `from_buffer` instead of this constructor."""
        self._loaded: LoadedModel | None = model
        self._environment = environment
        self._worker = Worker("litert")
        self._array_runners: dict[str, ArrayRunner] = {}

    @classmethod
    def from_file(
        cls,
        model_path: str | os.PathLike[str],
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> CompiledModel:
        """Loads a model from a file.

        If the model is not compiled, and `hardware_accel` or `options` allows the NPU, the method first compiles
        the model for the NPU.

        A large file is memory-mapped instead of read.

        Args:
          model_path: Path of the model file.
          hardware_accel: Hardware that may run the model; the CPU by default.
          environment: Environment, which gives the folders of compiler plugins and dispatch tables, and the cache
            folder. A dispatch table contains a vendor's functions that load byte code (the compiled parts of a
            model) and run it on the NPU. If loading compiles a model, the cache folder keeps the compiled model
            for later loads.
          options: Options for loading and running the model, given instead of `hardware_accel`.

        Raises:
          ValueError: If both `hardware_accel` and `options` are given, or the environment is closed.
          LiteRtError: NOT_FOUND, if the file does not exist, or if no dispatch table is found for the vendor for
            which the file was compiled; FILE_IO, if the file cannot be read; INVALID_FLATBUFFER, if the file is
            damaged. COMPILATION, if only the NPU is allowed, but some ops are not in NPU calls. An error of the
            compiler is raised only if `options` sets `soc_manufacturer`, `custom_op_infos`, `custom_layers`,
            `shape_bounds` or `compiler_options`; otherwise, the error is only logged.
        """
        return cls._load(os.fsdecode(model_path), hardware_accel, environment, options)

    @classmethod
    def from_buffer(
        cls,
        model_data: bytes,
        hardware_accel: HardwareAccelerator | None = None,
        environment: Environment | None = None,
        options: Options | None = None,
    ) -> CompiledModel:
        """Loads a model from bytes, and keeps a reference to these bytes.

        Apart from the source of the model, the method is the same as `from_file`.
        """
        if not isinstance(model_data, bytes):
            raise TypeError(f"model_data is {type(model_data).__name__}, not bytes")
        return cls._load(model_data, hardware_accel, environment, options)

    @classmethod
    def from_open_file(
        cls, file: MappedFile, environment: Environment, options: Options
    ) -> CompiledModel:
        """Loads a model from an open file, even if the file has been deleted since it was opened.

        The model's method `close` also closes the file.
        """
        return cls._load(file, None, environment, options)

    @classmethod
    def _load(
        cls,
        source: str | bytes | MappedFile,
        hardware_accel: HardwareAccelerator | None,
        environment: Environment | None,
        options: Options | None,
    ) -> CompiledModel:
        environment = environment or Environment.create()
        environment.check_open()
        if options is not None and hardware_accel is not None:
            raise ValueError("Pass either options or hardware_accel, not both.")
        if options is None:
            accelerators = HardwareAccelerator.CPU if hardware_accel is None else hardware_accel
            options = Options(accelerators)
        with interrupts_as_they_came():
            return cls(load_model(source, environment.options, options), environment)

    @property
    def environment(self) -> Environment:
        """The environment in which the model was loaded."""
        return self._environment

    def close(self) -> None:
        """Waits for runs in progress, then releases the model and its device."""
        self._close(must_wait=True)

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a CompiledModel can be neither copied nor pickled: load the model again")

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_worker"):  # if the constructor has ended
            # No run is in progress: a run would keep this object alive
            self._close(must_wait=False)

    def _close(self, *, must_wait: bool) -> None:
        self._worker.close(must_wait=must_wait)
        self._array_runners.clear()
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Returns a mapping from each signature's key to the names of the signature's `inputs` and `outputs`."""
        return {s.key: _names(s) for s in self._model.signatures}

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """Returns the `key` of a signature and the names of its `inputs` and `outputs`.

        Raises:
          LiteRtError: INDEX_OOB, if the model has no signature with this index.
        """
        signature = self._at(index)
        return {"key": signature.key, **_names(signature)}

    def get_num_signatures(self) -> int:
        """Returns the number of signatures. A model without signatures counts its main graph as one signature."""
        return len(self._model.signatures)

    def get_signature_index(self, key: str) -> int:
        """Returns the index of the signature with this key; -1 if no signature has the key."""
        keys = [signature.key for signature in self._model.signatures]
        return keys.index(key) if key in keys else -1

    def get_input_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """Returns a mapping from input names to their tensors' `name`, `index`, `dtype` and current `shape`.

        Raises:
          LiteRtError: NOT_FOUND, if no signature has this key.
        """
        signature = self._named(signature_key)
        return self._details(signature, signature.inputs)

    def get_output_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """Returns a mapping from output names to their tensors' `name`, `index`, `dtype` and current `shape`.

        In `shape`, a dimension whose size is known only at run time is -1 before the first run, and again after an
        input was resized. After a run, `shape` contains the dimension's size in the last run.

        Raises:
          LiteRtError: NOT_FOUND, if no signature has this key; or the error of shape inference, if an input was
            resized to a shape for which shape inference fails.
        """
        signature = self._named(signature_key)
        return self._details(signature, signature.outputs)

    def get_input_buffer_requirements(
        self, input_index: int, signature_index: int = 0
    ) -> dict[str, Any]:
        """Returns the requirements for the buffer of an input.

        `buffer_size` is the size in bytes. `supported_types` contains the types of memory that the buffer
        may have, as numbers; 1 is host memory.

        Raises:
          LiteRtError: INDEX_OOB, if the model has no such signature or input; or the error of shape inference, if
            an input was resized to a shape for which shape inference fails.
        """
        signature = self._at(signature_index)
        return self._requirements(signature, _item(signature.inputs, input_index, "input"))

    def get_output_buffer_requirements(
        self, output_index: int, signature_index: int = 0
    ) -> dict[str, Any]:
        """Returns the requirements for an output's buffer, with the same keys as `get_input_buffer_requirements`.

        If the shape is known only at run time, the size is enough for the largest possible shape.

        Raises:
          LiteRtError: UNSUPPORTED, if the output's shape has no upper bound, and no run has determined the shape
            yet; otherwise the errors of `get_input_buffer_requirements`.
        """
        signature = self._at(signature_index)
        return self._requirements(signature, _item(signature.outputs, output_index, "output"))

    def is_fully_accelerated(self) -> bool:
        """Returns whether NPU calls and XNNPACK (a library of CPU kernels) together run all ops of the model."""
        return self._model.is_fully_delegated

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """Creates a buffer for one input. Kernels use the buffer's memory without a copy.

        Raises:
          LiteRtError: NOT_FOUND, if the model has no such signature or input.
        """
        signature = self._named(signature_key)
        return self._allocate(signature, [signature.find("input", input_name)])[0]

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """Creates a buffer for one output.

        The arguments and errors are the same as in `create_input_buffer_by_name`.
        """
        signature = self._named(signature_key)
        return self._allocate(signature, [signature.find("output", output_name)])[0]

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Creates a buffer for each input of a signature, with the input's current shape.

        Raises:
          LiteRtError: INDEX_OOB, if the model has no such signature; or the error of shape inference, if an input
            was resized to a shape for which shape inference fails.
        """
        signature = self._at(signature_index)
        return self._allocate(signature, signature.inputs)

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Creates a buffer for each output of a signature, with the size from `get_output_buffer_requirements`.

        If the shape of an output is known only at run time, the buffer at first has the largest possible shape. A
        run then sets the buffer's shape to the actual shape of the output.
        """
        signature = self._at(signature_index)
        return self._allocate(signature, signature.outputs)

    def resize_input_tensor(
        self,
        input_index: int,
        dims: Sequence[int],
        signature_index: int = 0,
        strict: bool = True,
    ) -> None:
        """Changes the shape of an input. Existing buffers keep the former shape.

        Args:
          input_index: Index of the input in the signature.
          dims: The new shape.
          signature_index: Index of the signature.
          strict: Whether only the dynamic dimensions of the model's input may change. If False, any dimension may
            change.

        Raises:
          LiteRtError: INDEX_OOB, if the model has no such signature or input; INVALID_ARGUMENT, if the input
            cannot have this shape.
        """
        signature = self._at(signature_index)
        argument = _item(signature.inputs, input_index, "input")
        shape = [operator.index(d) for d in dims]
        with self._model.hold():
            signature.resize(argument, shape, strict=strict)

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """Changes the shape of the input with this name.

        The other arguments are the same as in `resize_input_tensor`.

        Raises:
          ValueError: If the model has no signature with this key, or no input with this name. Stock LiteRT also
            raises a ValueError.
          LiteRtError: INVALID_ARGUMENT, if the input cannot have this shape.
        """
        index = self.get_signature_index(signature_key)
        if index < 0:
            raise ValueError(f"Unknown signature: {signature_key}")
        names = [argument.name for argument in self._at(index).inputs]
        if input_name not in names:
            raise ValueError(f"Unknown input '{input_name}' for signature '{signature_key}'")
        self.resize_input_tensor(names.index(input_name), dims, index, strict)

    def run_by_index(
        self,
        signature_index: int,
        input_buffers: Sequence[TensorBuffer],
        output_buffers: Sequence[TensorBuffer],
    ) -> None:
        """Runs a signature on buffers, given in the order of the signature's inputs and outputs.

        If the shape of an input buffer differs from the shape of the model's input only in dynamic dimensions, the
        model's input gets the shape of the buffer.

        Raises:
          ValueError: If a buffer is destroyed.
          LiteRtError: INDEX_OOB, if the model has no such signature; INVALID_ARGUMENT, if a buffer has the wrong
            type, shape or size; the vendor's error, if an NPU call fails; RUNTIME_FAILURE, if the run fails for
            another reason. After an error, the model can run again.
        """
        model = self._model
        inputs = [buffer.lend_input() for buffer in input_buffers]
        outputs = [buffer.lend_output() for buffer in output_buffers]
        model.run(self._at(signature_index), inputs, outputs)

    def run_by_name(
        self,
        signature_key: str,
        input_map: Mapping[str, TensorBuffer],
        output_map: Mapping[str, TensorBuffer],
    ) -> None:
        """Runs a signature on buffers, given by the names of inputs and outputs.

        An input without a buffer in `input_map` keeps the buffer of the last run, as in stock LiteRT.

        Raises:
          LiteRtError: NOT_FOUND, if the model has no such signature, or if an output has no buffer;
            MISSING_INPUT_TENSOR, if an input never had a buffer; otherwise the errors of `run_by_index`.
        """
        signature = self._named(signature_key)
        for name in input_map.keys() - {argument.name for argument in signature.inputs}:
            _LOG.warning("input '%s' does not exist in %s", name, signature_text(signature_key))
        inputs = [input_map.get(argument.name) for argument in signature.inputs]
        outputs = [output_map.get(argument.name) for argument in signature.outputs]
        missing = [a.name for a, o in zip(signature.outputs, outputs, strict=True) if o is None]
        if missing:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"output '{missing[0]}' has no buffer",
                signature_text(signature_key),
            )
        self._model.run(
            signature,
            [buffer.lend_input() if buffer is not None else None for buffer in inputs],
            [buffer.lend_output() for buffer in outputs if buffer is not None],
        )

    def run(
        self, inputs: Mapping[str, Any], signature: str | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Runs a signature on arrays, and copies all inputs and outputs. To avoid the copies, call `run_by_index`.

        Args:
          inputs: Mapping from input names to arrays of the model's element types, or to values that NumPy converts
            to arrays. The shapes of arrays may differ from the model's shapes only in dynamic dimensions.
          signature: Key of the signature; the first signature by default.

        Returns:
          A mapping from output names to newly allocated arrays, which the caller owns.

        Raises:
          LiteRtError: NOT_FOUND, if the signature or an input name is unknown; MISSING_INPUT_TENSOR, if an input
            is missing; otherwise the errors of `run_by_index`.
        """
        from litert.runtime.array_run import ArrayRunner  # here: the module imports NumPy

        entry = self._at(0) if signature is None else self._named(signature)
        runner = self._array_runners.get(entry.key)
        if runner is None:
            runner = self._array_runners.setdefault(entry.key, ArrayRunner(self._model, entry))
        return runner.run(inputs)

    def run_async(
        self, inputs: Mapping[str, Any], signature: str | None = None
    ) -> Future[dict[str, np.ndarray[Any, Any]]]:
        """Starts `run` in a worker thread. The arrays must not change until the run has ended."""
        self._model  # noqa: B018 (raises if the model is closed)
        return self._worker.submit(lambda: self.run(inputs, signature))

    def run_async_by_index(
        self,
        signature_index: int,
        input_buffers: Sequence[TensorBuffer],
        output_buffers: Sequence[TensorBuffer],
    ) -> Event:
        """Starts a run without waiting for its end.

        If the whole model consists of NPU calls, the vendor's driver performs the run; otherwise a worker thread
        does. Reading or writing an output buffer waits for the end of the run; another run on the same buffer
        waits, too.

        Returns:
          An event that is signaled at the end of the whole run. Each output buffer has its own event, too.

        Raises:
          ValueError: If a buffer is destroyed.
          LiteRtError: The errors of `run_by_index` that are found before the run starts. `Event.wait` raises the
            errors that occur during the run.
        """
        model, signature = self._model, self._at(signature_index)
        outputs = [buffer.lend_output() for buffer in output_buffers]
        inputs = [buffer.lend_unfinished() for buffer in input_buffers]
        buffers = [buffer for buffer, _ in inputs]
        waits = [event for _, event in inputs if event is not None]
        is_all_npu = False
        if not waits:
            with model.hold():
                is_all_npu = signature.is_all_npu()
        if is_all_npu:
            event: Event = JoinedEvent(model.start(signature, buffers, outputs))
            for buffer in output_buffers:
                if buffer.event is None:  # a device can wait for the vendor's event
                    buffer.set_event(event)
            return event

        def run() -> None:
            wait_for_all(waits)
            self._model.run(signature, buffers, outputs)  # the model lives until then

        event = self._worker.start(run)
        for buffer in output_buffers:
            buffer.set_event(event)
        return event

    def start_metrics_collection(self, detail_level: int = 1, warm_up: int = 0) -> None:
        """Starts to measure runs and NPU calls, except for asynchronous runs that the vendor's driver performs.

        Args:
          detail_level: Level of detail of all measurements, including the vendor's own measurements. A higher
            level gives more measurements, and may slow down runs. From level 2 on, each op is measured; all ops
            that XNNPACK runs count as one op, unless `Options.enable_profiling` is set.
          warm_up: Number of runs at the beginning whose times are discarded, because a vendor may prepare its
            measurements in the first run. The vendor's own measurements still include the discarded runs.

        Raises:
          LiteRtError: ALREADY_EXISTS, if metrics are being collected already; or the vendor's error.
        """
        self._model.start_metrics(detail_level, warm_up)

    def stop_metrics_collection(self) -> RunMetrics:
        """Ends the collection of metrics, and returns all measurements since its start.

        Raises:
          LiteRtError: NOT_FOUND, if no metrics are being collected; or the vendor's error.
        """
        return self._model.stop_metrics()

    @property
    def _model(self) -> LoadedModel:
        if self._loaded is None:
            raise LiteRtError(Status.RUNTIME_FAILURE, "the model is closed", hint=REOPEN)
        return self._loaded

    def _at(self, index: int) -> SignatureRunner:
        return _item(self._model.signatures, index, "signature")

    def _named(self, key: str) -> SignatureRunner:
        for signature in self._model.signatures:
            if signature.key == key:
                return signature
        keys = [signature.key for signature in self._model.signatures]
        if keys == [PLACEHOLDER_SIGNATURE]:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"the model has no signatures, so there is no signature '{key}'",
                hint="Omit the signature, or use signature index 0, to run the main subgraph.",
            )
        raise LiteRtError(
            Status.NOT_FOUND,
            f"the model has no signature '{key}'",
            hint=f"{names_text('signature', keys)}.",
        )

    def _details(
        self, signature: SignatureRunner, arguments: Sequence[SignatureTensor]
    ) -> dict[str, dict[str, Any]]:
        with self._model.hold():
            types = [signature.tensor_type(argument) for argument in arguments]
            return {
                argument.name: {
                    "name": signature.tensor_name(argument),
                    "index": argument.tensor,
                    "dtype": type_name(tensor_type.element_type),
                    "shape": list(tensor_type.shape),
                }
                for argument, tensor_type in zip(arguments, types, strict=True)
            }

    def _requirements(
        self, signature: SignatureRunner, argument: SignatureTensor
    ) -> dict[str, Any]:
        with self._model.hold():
            requirements = signature.requirements(argument)
        return {
            "buffer_size": requirements.size,
            "supported_types": [int(t) for t in requirements.supported_types],
        }

    def _allocate(
        self, signature: SignatureRunner, arguments: Sequence[SignatureTensor]
    ) -> list[TensorBuffer]:
        with self._model.hold():
            return [TensorBuffer(signature.allocate(argument)) for argument in arguments]


def _item(items: Sequence[_Item], index: int, kind: str) -> _Item:
    if not 0 <= operator.index(index) < len(items):
        raise LiteRtError(
            Status.INDEX_OOB,
            out_of_range(kind, index, len(items)),
        )
    return items[index]


def _names(signature: SignatureRunner) -> dict[str, list[str]]:
    return {
        "inputs": [argument.name for argument in signature.inputs],
        "outputs": [argument.name for argument in signature.outputs],
    }
