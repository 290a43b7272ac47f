"""The NPU as its dispatch table sees it: a narrow interface, so that the device can live in a process apart.

What crosses it are values: texts, tasks, sizes, addresses of host memory. `OpenClDevice` is the one there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dispatch.event import Event
from litert.core.sizes import Shapes, Size
from vendor_reference.device.program_text import ProgramText
from vendor_reference.drivers.device_info import DeviceInfo
from vendor_reference.executable.binary_layer import DeviceCode
from vendor_reference.executable.executable import Constant, Function

Program = TypeVar("Program")
"""A built program, kept by the device as long as somebody has it."""

Memory = TypeVar("Memory")
"""Memory that kernels can use."""

Library = TypeVar("Library")
"""A library of CPU layers."""

_Built = TypeVar("_Built", covariant=True)
_Attached = TypeVar("_Attached", contravariant=True)


@dataclass(frozen=True, slots=True)
class TaskTime:
    """How long a task took, from its start to its end on the device."""

    op_name: str
    entry: str
    mean_us: float


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was measured of a function.

    Attributes:
      runs: how many ended well.
      mean_us, best_us: of a whole run, as its caller sees it; 0 without runs.
      tasks: in order, where they were asked for.
    """

    runs: int
    mean_us: float
    best_us: float
    tasks: Sequence[TaskTime]


class Programs(Protocol[_Built]):
    """The programs of a module, as a function on the device asks for them."""

    def holes(self, index: int) -> Sequence[Size]:
        """The sizes that the text of a program has holes for."""

    def find(self, index: int, shapes: Shapes) -> _Built:
        """The program for the shapes as they are; built, where that is to be.

        Raises:
          LiteRtError: COMPILATION; INVALID_ARGUMENT, if its text has a size without a value.
        """


class LoadedFunction(Protocol[_Attached]):
    """A function on the device, with what it runs on; one run at a time."""

    def attach_input(self, index: int, memory: _Attached) -> None:
        """Sets what runs read as input `index`; it must live until another takes its place."""

    def attach_output(self, index: int, memory: _Attached) -> None:
        """Sets what runs write as output `index`; else as `attach_input`."""

    def detach_input(self, index: int, memory: _Attached) -> None:
        """Takes memory off; one that is not attached (any more) changes nothing."""

    def detach_output(self, index: int, memory: _Attached) -> None:
        """Takes memory off; one that is not attached (any more) changes nothing."""

    def detach_all(self) -> None:
        """Takes all memory off, once what is under way has ended; it can be used again."""

    def has_dynamic_input(self, index: int) -> bool:
        """Whether the shape of input `index` is to be set."""

    def set_input_shape(self, index: int, shape: Sequence[int]) -> None:
        """Sets the shape of input `index`, which is dynamic, for the runs from now on.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a shape that the function was not compiled for, or above its bound.
        """

    def run(self) -> None:
        """Runs the tasks; when it returns, the outputs are in host memory.

        Raises:
          LiteRtError: MISSING_INPUT_TENSOR; RUNTIME_FAILURE or MEMORY_ALLOCATION_FAILURE, with op and kernel.
            It can be run again.
        """

    def start(self, after: Sequence[Event]) -> Event:
        """Starts a run once some events have happened; the result is signaled when its outputs are there."""

    def start_measuring(self, with_tasks: bool) -> None:
        """Measures the runs from now on; each task where that is asked for, which is slower."""

    def stop_measuring(self) -> Measurement:
        """What was measured since the start."""

    def close(self) -> None:
        """Releases all that it holds."""


class Device(Protocol[Program, Memory, Library]):
    """An open device; safe to use from several threads."""

    info: DeviceInfo

    def build(self, texts: Sequence[ProgramText]) -> Sequence[Program]:
        """Builds programs, or finds them built; equal texts are one program.

        Raises:
          LiteRtError: COMPILATION, with the compiler's log, or how it crashed.
        """

    def load_code(self, name: str, code: DeviceCode) -> Program:
        """A program from code that was compiled ahead for this device.

        Args:
          name: the user's files that it was made of, for messages.
          code: for a device of this one's identity.

        Raises:
          LiteRtError: COMPILATION, if the driver does not take it.
        """

    def load_library(self, name: str, sha256: str, data: memoryview) -> Library:
        """Loads a library of CPU layers, once.

        Args:
          name: of its file, for messages.
          sha256: of its bytes.
          data: all of it, which is copied.

        Raises:
          LiteRtError: if it cannot be loaded here, or is none.
        """

    def load_constant(self, constant: Constant) -> Memory:
        """A constant as kernels read it; its data must live as long as the result."""

    def share(self, address: int, size_bytes: int) -> Memory:
        """Host memory for inputs and outputs, at any address; it must live as long as the result."""

    def load(
        self,
        function: Function,
        programs: Programs[Program],
        constants: Mapping[int, Memory],
        libraries: Mapping[str, Library],
    ) -> LoadedFunction[Memory]:
        """Makes a function ready to run.

        Args:
          function: of an executable.
          programs: those that its tasks name.
          constants: those that its tasks name, by their index.
          libraries: of CPU layers that its tasks name, by SHA-256.

        Raises:
          LiteRtError: NOT_FOUND, if a program has not the kernel; INVALID_ARGUMENT, if a kernel takes other
            arguments; MEMORY_ALLOCATION_FAILURE.
        """
