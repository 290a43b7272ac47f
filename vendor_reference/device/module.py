"""A byte code module on a device: programs and constants are made as functions need them, each once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from dispatch.mem_buffer import MemBuffer
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.device.device import Device, LoadedFunction
from vendor_reference.device.program_text import compose_text
from vendor_reference.executable.executable import ArgumentKind, Function, Source
from vendor_reference.executable.reader import read_executable


class Module:
    """An executable that was read, and what of it is on the device."""

    def __init__(
        self, device: Device[Any, Any], byte_code: memoryview, assets: Mapping[str, MemBuffer]
    ) -> None:
        """Reads byte code.

        Args:
          device: that it will run on.
          byte_code: which must live as long as the module.
          assets: that were registered, by name.

        Raises:
          LiteRtError: SERIALIZATION, INCOMPATIBLE_BYTE_CODE_VERSION.
        """
        self._device = device
        self._executable = read_executable(byte_code)
        self._assets = assets
        self._checked: set[Source] = set()
        self._programs: dict[int, Any] = {}
        self._constants: dict[int, Any] = {}

    def find_function(self, name: str) -> Function:
        """The function of that name.

        Raises:
          LiteRtError: NOT_FOUND, with the names there are.
        """
        for function in self._executable.functions:
            if function.name == name:
                return function
        there = ", ".join(f"'{function.name}'" for function in self._executable.functions)
        raise LiteRtError(
            Status.NOT_FOUND, f"no function '{name}', there is {there or 'none'}", "byte code"
        )

    def load(self, function: Function) -> LoadedFunction[Any]:
        """Makes one of its functions ready to run.

        Raises:
          LiteRtError: NOT_FOUND or INVALID_ARGUMENT, if an asset is missing or is another; what the device says.
        """
        self._build({task.program for task in function.tasks})
        constants = {
            argument.index
            for task in function.tasks
            for argument in task.arguments
            if argument.kind is ArgumentKind.CONSTANT
        }
        for index in constants - self._constants.keys():
            constant = self._executable.constants[index]
            self._constants[index] = self._device.load_constant(constant)
        return self._device.load(
            function,
            {task.program: self._programs[task.program] for task in function.tasks},
            {index: self._constants[index] for index in constants},
        )

    def _build(self, indices: set[int]) -> None:
        missing = sorted(indices - self._programs.keys())
        texts = [compose_text(self._executable.programs[i], self._read_source) for i in missing]
        self._programs.update(zip(missing, self._device.build(texts), strict=True))

    def _read_source(self, source: Source) -> memoryview:
        """An asset's bytes; which are those that the program was compiled with."""
        asset = self._assets.get(source.asset)
        if asset is None:
            raise LiteRtError(
                Status.NOT_FOUND,
                f"no asset '{source.asset}' was registered",
                f"source {source.file_name}",
                "Compile the model again: its file lacks an asset.",
            )
        if source not in self._checked:
            if hashlib.sha256(asset.view).hexdigest() != source.sha256:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"asset '{source.asset}' is not the one that the model was compiled with",
                    f"source {source.file_name}",
                    "Compile the model again.",
                )
            self._checked.add(source)
        return asset.view
