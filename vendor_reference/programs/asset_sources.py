"""Reads the source files of programs from registered assets.

A source file is an asset, or is packed in an asset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from litert.core.counts import list_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.executable.binary_layer import (
    BinaryLayer,
    DeviceCode,
    is_binary_layer,
    unpack_binary_layer,
)
from vendor_reference.executable.executable import Program, Source
from vendor_reference.executable.kernel_signature import KernelSignature

_SHAPES = "the op's shapes and options"


class AssetSources:
    """Reads source files from assets; each asset is checked only once."""

    def __init__(self, find: Callable[[str], memoryview | None]) -> None:
        """`find` returns the bytes of the asset with a given name; None if there is no such asset."""
        self._find = find
        self._checked: dict[Source, memoryview] = {}
        self._layers: dict[str, BinaryLayer] = {}

    def read(self, source: Source) -> memoryview:
        """Returns the bytes of a source file, after a check that the program was compiled with the same bytes.

        Raises:
          LiteRtError: NOT_FOUND, if the asset does not exist; INVALID_ARGUMENT, if the asset with this name has
            other contents.
        """
        if source not in self._checked:
            self._checked[source] = self._read(source)
        return self._checked[source]

    def read_shown(self, source: Source) -> memoryview:
        """Returns the bytes of a source file for display; empty if a binary layer omits the source file."""
        layer = self._layer(source.asset)
        file = layer.files.get(source.file_name) if layer else None
        return memoryview(b"") if file is not None and file.data is None else self.read(source)

    def find_code(
        self, program: Program, device: Sequence[str], is_allowed: bool
    ) -> DeviceCode | None:
        """Returns the machine code of a program from a binary layer.

        Returns None if the program is built from source code.

        `is_allowed` is true if machine code from assets may run.

        Raises:
          LiteRtError: NOT_FOUND, if there is neither machine code nor source code; UNSUPPORTED, if there is only
            machine code, and `is_allowed` is false.
        """
        asset, layer = self._packed(program)
        if layer is None:
            return None
        codes = layer.find_codes(program)
        code = next((code for code in codes if list(code.device) == list(device)), None)
        if code is not None and is_allowed:
            return code
        left_out = _left_out(layer, program)
        if not left_out:
            return None
        if code is None:
            here = f"this machine's device, '{' '.join(device)}'"
            raise _no_code(layer, program, here if codes else _SHAPES, asset)
        raise LiteRtError(
            Status.UNSUPPORTED,
            "the layer contains only machine code, which may run only with --allow_native_assets",
            f"asset '{asset}', built without {', '.join(left_out)}",
            "If you trust the layer, set --allow_native_assets or, in Python, Options(allow_native_assets=True).",
        )

    def find_declared(self, program: Program) -> Mapping[str, KernelSignature] | None:
        """Returns the declarations of a program's kernels if the source code is omitted.

        Returns None if the program can be built from source code.

        Raises:
          LiteRtError: NOT_FOUND, if there is neither source code nor machine code.
        """
        asset, layer = self._packed(program)
        if layer is None or not _left_out(layer, program):
            return None
        for code in layer.find_codes(program):
            return code.kernels
        raise _no_code(layer, program, _SHAPES, asset)

    def _read(self, source: Source) -> memoryview:
        where = f"source file {source.file_name}"
        layer = self._layer(source.asset)
        if layer is not None:
            file = layer.files.get(source.file_name)
            found = file.sha256 if file else ""
            data = file.data if file else None
        else:
            data = self._find(source.asset)
            if data is None:
                raise LiteRtError(
                    Status.NOT_FOUND,
                    f"the compiled model lacks asset '{source.asset}'",
                    where,
                    "Compile the model again.",
                )
            found = hashlib.sha256(data).hexdigest()
        if found != source.sha256 or data is None:
            raise LiteRtError(
                Status.INVALID_ARGUMENT,
                f"asset '{source.asset}' differs from the asset that the model was compiled with",
                where,
                "Compile the model again.",
            )
        return data

    def _packed(self, program: Program) -> tuple[str, BinaryLayer | None]:
        """Returns the asset with a program's binary layer, and the layer; "" and None if there is no layer."""
        for source in program.sources:
            if layer := self._layer(source.asset):
                return source.asset, layer
        return "", None

    def _layer(self, asset: str) -> BinaryLayer | None:
        if asset not in self._layers:
            data = self._find(asset)
            if data is None or not is_binary_layer(data):
                return None
            self._layers[asset] = unpack_binary_layer(data, f"asset '{asset}'")
        return self._layers[asset]


def _left_out(layer: BinaryLayer, program: Program) -> list[str]:
    """Returns the files of a program whose text is not in the layer."""
    files = [layer.files.get(s.file_name) for s in (*program.sources, *program.headers)]
    return [file.path for file in files if file is not None and file.data is None]


def _no_code(layer: BinaryLayer, program: Program, wanted: str, asset: str) -> LiteRtError:
    devices = [f"'{' '.join(code.device)}'" for code in layer.find_codes(program)]
    others = f"the {list_text('device', devices)}" if devices else "other shapes and options"
    return LiteRtError(
        Status.NOT_FOUND,
        f"the layer contains no source code, and no machine code for {wanted}",
        f"asset '{asset}', built without {', '.join(_left_out(layer, program))}",
        f"The layer contains machine code only for {others}. On this machine, build the layer for this op again "
        "with litert-npu layer build; for dynamic shapes, add --shape_bounds. Then compile the model again.",
    )
