"""Loads models and runs them; names are those of `ai_edge_litert.compiled_model`.

A program written for that package runs here when its imports are changed. Beyond it: `run` on arrays by name,
runs that do not wait, buffers over the caller's memory in any place, metrics of each NPU call. Errors are
`LiteRtError`, a `RuntimeError` as stock's are; `ValueError` where stock raises it.

A model may be used from several threads: its runs follow each other. Load it once for each thread to run in
parallel.
"""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dispatch.event import Event, JoinedEvent, wait_for_all
from dispatch.worker import Worker
from litert.core.errors import LiteRtError
from litert.core.interrupts import interrupts_as_they_came
from litert.core.status import Status
from litert.cpu_kernel_mode import CpuKernelMode
from litert.environment import Environment, EnvironmentOptions
from litert.hardware_accelerator import HardwareAccelerator
from litert.model.blob import MappedFile
from litert.options import CpuOptions, GpuOptions, Options
from litert.runtime.loaded_model import LoadedModel
from litert.runtime.loading import load_model
from litert.runtime.metrics import RunMetrics
from litert.runtime.signature import SignatureRunner, SignatureTensor
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
    """A loaded model; a context manager."""

    def __init__(self, model: LoadedModel, environment: Environment) -> None:
        """For `from_file` and `from_buffer`, which programs call."""
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
        """Loads a model from a file, a large one without reading it; one that is not compiled is, for the NPU.

        Args:
          model_path: of the file.
          hardware_accel: what may run it; the CPU, where nothing is said.
          environment: where compiler plugins and dispatch tables are, and where what they compile is kept.
          options: in place of `hardware_accel`, with what a compiler is told.

        Raises:
          ValueError: for both `hardware_accel` and `options`, or an environment that is closed.
          LiteRtError: what is wrong with the file; NOT_FOUND, if there is no dispatch table for the vendor that it
            was compiled for; COMPILATION, if the NPU alone was asked for and ops are left over; what goes wrong in
            compiling, if the options say what for.
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
        """Loads a model from bytes, which are kept; else as `from_file`."""
        if not isinstance(model_data, bytes):
            raise TypeError(f"model_data is {type(model_data).__name__}, not bytes")
        return cls._load(model_data, hardware_accel, environment, options)

    @classmethod
    def from_open_file(
        cls, file: MappedFile, environment: Environment, options: Options
    ) -> CompiledModel:
        """Loads a model from a file that is open, whatever has its name by now; the model closes it."""
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
        """The environment that it was loaded in."""
        return self._environment

    def close(self) -> None:
        """Releases the model and its device; runs under way end first."""
        self._close(must_wait=True)

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError("a CompiledModel can be neither copied nor pickled: load the model again")

    def __enter__(self) -> CompiledModel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._close(must_wait=False)  # no run is under way, which would keep this object

    def _close(self, *, must_wait: bool) -> None:
        self._worker.close(must_wait=must_wait)
        self._array_runners.clear()
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.close()

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """Names of `inputs` and `outputs`, by signature."""
        return {s.key: _names(s) for s in self._model.signatures}

    def get_signature_by_index(self, index: int) -> dict[str, Any]:
        """`key`, and names of `inputs` and `outputs`.

        Raises:
          LiteRtError: INDEX_OOB.
        """
        signature = self._at(index)
        return {"key": signature.key, **_names(signature)}

    def get_num_signatures(self) -> int:
        """At least 1: a model without signatures has one, its main graph."""
        return len(self._model.signatures)

    def get_signature_index(self, key: str) -> int:
        """A signature's place; -1, if there is none of that name."""
        keys = [signature.key for signature in self._model.signatures]
        return keys.index(key) if key in keys else -1

    def get_input_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """`name`, `index`, `dtype` and `shape` as they are now, by input.

        Raises:
          LiteRtError: NOT_FOUND.
        """
        signature = self._named(signature_key)
        return self._details(signature, signature.inputs)

    def get_output_tensor_details(self, signature_key: str) -> dict[str, dict[str, Any]]:
        """As `get_input_tensor_details`.

        A dimension that only a run tells is -1 until the first run after a resize, then as in the last run.

        Raises:
          LiteRtError: NOT_FOUND; what is wrong with shapes after a resize.
        """
        signature = self._named(signature_key)
        return self._details(signature, signature.outputs)

    def get_input_buffer_requirements(
        self, input_index: int, signature_index: int = 0
    ) -> dict[str, Any]:
        """`buffer_size` in bytes, and `supported_types` of memory (1 is the host's).

        Raises:
          LiteRtError: INDEX_OOB; what is wrong with shapes after a resize.
        """
        signature = self._at(signature_index)
        return self._requirements(signature, _item(signature.inputs, input_index, "input"))

    def get_output_buffer_requirements(
        self, output_index: int, signature_index: int = 0
    ) -> dict[str, Any]:
        """As `get_input_buffer_requirements`. If only a run tells the shape, the size is that of the largest one.

        Raises:
          LiteRtError: UNSUPPORTED, where nothing bounds such a shape, until a run has told it; else as
            `get_input_buffer_requirements`.
        """
        signature = self._at(signature_index)
        return self._requirements(signature, _item(signature.outputs, output_index, "output"))

    def is_fully_accelerated(self) -> bool:
        """Whether each op is in an NPU call, or XNNPACK's."""
        return self._model.is_fully_delegated

    def create_input_buffer_by_name(self, signature_key: str, input_name: str) -> TensorBuffer:
        """A buffer for one input, in which the kernels can work as it is.

        Raises:
          LiteRtError: NOT_FOUND.
        """
        signature = self._named(signature_key)
        return self._allocate(signature, [signature.find("input", input_name)])[0]

    def create_output_buffer_by_name(self, signature_key: str, output_name: str) -> TensorBuffer:
        """As `create_input_buffer_by_name`, for an output."""
        signature = self._named(signature_key)
        return self._allocate(signature, [signature.find("output", output_name)])[0]

    def create_input_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """Buffers for all inputs, of their shapes as they are now.

        Raises:
          LiteRtError: INDEX_OOB; what is wrong with shapes after a resize.
        """
        signature = self._at(signature_index)
        return self._allocate(signature, signature.inputs)

    def create_output_buffers(self, signature_index: int) -> list[TensorBuffer]:
        """As `create_input_buffers`, of the size that `get_output_buffer_requirements` says.

        Where only a run tells the shape, the buffer has the largest, and then that of the run.
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
        """Gives an input another shape; buffers made before are for the former one.

        Args:
          input_index: in the signature.
          dims: the new shape.
          signature_index: the signature's place.
          strict: whether only dimensions that the model leaves open may change.

        Raises:
          LiteRtError: INDEX_OOB, or INVALID_ARGUMENT.
        """
        signature = self._at(signature_index)
        argument = _item(signature.inputs, input_index, "input")
        shape = [operator.index(d) for d in dims]
        with self._model.hold():
            signature.resize(argument, shape, strict=strict)

    def resize_input_tensor_by_name(
        self, signature_key: str, input_name: str, dims: Sequence[int], strict: bool = True
    ) -> None:
        """As `resize_input_tensor`.

        Raises:
          ValueError: for a name that is not there, as stock.
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
        """Runs on these buffers, in the order of the signature.

        An input of another shape than the model's resizes it, where the model leaves those dimensions open.

        Raises:
          ValueError: for a buffer that is destroyed.
          LiteRtError: INDEX_OOB, for the signature; INVALID_ARGUMENT, for a buffer of the wrong type, shape or
            size; what a vendor raised; RUNTIME_FAILURE. The model can be run again.
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
        """Runs on these buffers; an input that is not there keeps the buffer it had, as in stock.

        Raises:
          LiteRtError: NOT_FOUND, for the signature or an output; MISSING_INPUT_TENSOR; as `run_by_index`.
        """
        signature = self._named(signature_key)
        for name in input_map.keys() - {argument.name for argument in signature.inputs}:
            _LOG.warning("Input '%s' is none of signature '%s'", name, signature_key)
        inputs = [input_map.get(argument.name) for argument in signature.inputs]
        outputs = [output_map.get(argument.name) for argument in signature.outputs]
        missing = [a.name for a, o in zip(signature.outputs, outputs, strict=True) if o is None]
        if missing:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"no buffer for output '{missing[0]}'",
                f"signature '{signature_key}'",
            )
        self._model.run(
            signature,
            [buffer.lend_input() if buffer is not None else None for buffer in inputs],
            [buffer.lend_output() for buffer in outputs if buffer is not None],
        )

    def run(
        self, inputs: Mapping[str, Any], signature: str | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Runs on arrays, which are copied; `run_by_index` needs no copies.

        Args:
          inputs: arrays of the model's types, or what becomes one, by name. Shapes may differ from the model's
            where it leaves dimensions open.
          signature: its key; the first, where none is given.

        Returns:
          New arrays by name, which are the caller's.

        Raises:
          LiteRtError: NOT_FOUND or MISSING_INPUT_TENSOR, for a name too many or too few; as `run_by_index`.
        """
        from litert.runtime.array_run import ArrayRunner  # which imports NumPy

        entry = self._at(0) if signature is None else self._named(signature)
        runner = self._array_runners.get(entry.key)
        if runner is None:
            runner = self._array_runners.setdefault(entry.key, ArrayRunner(self._model, entry))
        return runner.run(inputs)

    def run_async(
        self, inputs: Mapping[str, Any], signature: str | None = None
    ) -> Future[dict[str, np.ndarray[Any, Any]]]:
        """As `run`, in a thread of the model's; the arrays are not to be changed until it is done."""
        self._model  # noqa: B018 (refuses one that is closed)
        return self._worker.submit(lambda: self.run(inputs, signature))

    def run_async_by_index(
        self,
        signature_index: int,
        input_buffers: Sequence[TensorBuffer],
        output_buffers: Sequence[TensorBuffer],
    ) -> Event:
        """Starts a run, and does not wait for it.

        Where the NPU does all of it, its vendor's driver runs it; else a thread of the model's. What reads or
        writes the output buffers waits for it, and so does a run that they are given to.

        Returns:
          The event of the whole run; each output buffer has one too.

        Raises:
          ValueError: as `run_by_index`.
          LiteRtError: as `run_by_index`, as far as it is found before; else the events raise it.
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
                if buffer.event is None:  # it has the vendor's, which a device can wait for
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
        """Measures runs from now on, and each NPU call in them; not those that nobody waits for.

        Args:
          detail_level: a higher one is finer and may be slower, for the vendor's own measurements, too. From 2 on,
            each op is measured; those that XNNPACK runs are one, unless `Options.enable_profiling` was set.
          warm_up: number of runs that are not counted: in the first, a vendor gets ready to measure.

        Raises:
          LiteRtError: ALREADY_EXISTS, if it was started before; the vendor's.
        """
        self._model.start_metrics(detail_level, warm_up)

    def stop_metrics_collection(self) -> RunMetrics:
        """What was measured since the start.

        Raises:
          LiteRtError: NOT_FOUND, if it was not started; the vendor's.
        """
        return self._model.stop_metrics()

    @property
    def _model(self) -> LoadedModel:
        if self._loaded is None:
            raise LiteRtError(Status.RUNTIME_FAILURE, "the model is closed")
        return self._loaded

    def _at(self, index: int) -> SignatureRunner:
        return _item(self._model.signatures, index, "signature")

    def _named(self, key: str) -> SignatureRunner:
        for signature in self._model.signatures:
            if signature.key == key:
                return signature
        keys = ", ".join(signature.key for signature in self._model.signatures)
        raise LiteRtError(Status.NOT_FOUND, f"no signature '{key}', only {keys}")

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
        raise LiteRtError(Status.INDEX_OOB, f"{kind} {index} of {len(items)}")
    return items[index]


def _names(signature: SignatureRunner) -> dict[str, list[str]]:
    return {
        "inputs": [argument.name for argument in signature.inputs],
        "outputs": [argument.name for argument in signature.outputs],
    }
