"""Stores options for C code: opaque payloads by name, and environment options by tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from litert.abi.definitions import ffi
from litert.abi.handles import Handles
from litert.core.counts import out_of_range
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status

if TYPE_CHECKING:
    from litert.core.compiler_options import CustomOpInfo

_TAGS = {
    "compiler_plugin_path": "kLiteRtEnvOptionTagCompilerPluginLibraryDir",
    "dispatch_library_path": "kLiteRtEnvOptionTagDispatchLibraryDir",
    "runtime_path": "kLiteRtEnvOptionTagRuntimeLibraryDir",
}


class HostOptions(NamedTuple):
    """The host's object for a handle `LiteRtOptions`."""

    opaque: int  # handle


class HostOpaqueOptions(NamedTuple):
    """The host's object for a handle `LiteRtOpaqueOptions`: payloads by name, in C memory."""

    payloads: Mapping[str, Any]
    compiler: int  # handle


class HostCompilerOptions(NamedTuple):
    """The host's object for a handle `LiteRtCompilerOptions`: names of ops and paths of assets, in C memory."""

    custom_op_infos: Sequence[tuple[Any, Any]]


class HostEnvironmentOptions(NamedTuple):
    """The host's object for a handle `LiteRtEnvironmentOptions`: texts by tag, in C memory."""

    values: Mapping[int, Any]


class OptionsTable:
    """The options for which C code has handles, and the C functions that read these options.

    Memory that a function returns lives until the handle is dropped.
    """

    def __init__(self) -> None:
        self._handles = Handles()

    def put_options(
        self, payloads: Mapping[str, bytes], custom_op_infos: Sequence[CustomOpInfo] = ()
    ) -> int:
        """Makes a `LiteRtOptions` with opaque payloads by name; in C memory, a zero byte follows each payload."""
        infos = [(_text(info.op_name), _text(info.asset_path)) for info in custom_op_infos]
        compiler = self._handles.put(HostCompilerOptions(infos))
        texts = {name: ffi.new("char[]", payload) for name, payload in payloads.items()}
        return self._handles.put(HostOptions(self._handles.put(HostOpaqueOptions(texts, compiler))))

    def drop_options(self, handle: int) -> None:
        """Releases a `LiteRtOptions`, its payloads and their handles."""
        options = self._handles.get(handle, HostOptions)
        opaque = self._handles.get(options.opaque, HostOpaqueOptions)
        for each in (handle, options.opaque, opaque.compiler):
            self._handles.drop(each)

    def put_environment(self, environment: EnvironmentOptions) -> int:
        """Makes a `LiteRtEnvironmentOptions`; C code gets the status NotFound for options without a value."""
        values = {
            ffi.integer_const(tag): _text(value)
            for field, tag in _TAGS.items()
            if (value := getattr(environment, field))
        }
        return self._handles.put(HostEnvironmentOptions(values))

    def drop_environment(self, handle: int) -> None:
        """Releases a `LiteRtEnvironmentOptions`."""
        self._handles.drop(handle)

    def get_opaque_options(self, options: int, opaque_options: Any) -> None:
        """`LiteRtGetOpaqueOptions`."""
        opaque_options[0] = self._handles.get(options, HostOptions).opaque

    def find_opaque_options_data(
        self, opaque_options: int, identifier: Any, data: Any
    ) -> Status | None:
        """`LiteRtFindOpaqueOptionsData`."""
        payloads = self._handles.get(opaque_options, HostOpaqueOptions).payloads
        name = ffi.string(identifier).decode(errors="replace")
        if name not in payloads:
            return Status.NOT_FOUND  # an answer, and no error for the log
        data[0] = payloads[name]
        return None

    def destroy_options(self, options: int) -> None:
        """`LiteRtDestroyOptions`: does nothing, because the host owns these options and releases them."""

    def get_environment_options_value(self, options: int, tag: int, value: Any) -> Status | None:
        """`LiteRtGetEnvironmentOptionsValue`."""
        values = self._handles.get(options, HostEnvironmentOptions).values
        if tag not in values:
            return Status.NOT_FOUND
        value.type = ffi.integer_const("kLiteRtAnyTypeString")
        value.str_value = values[tag]
        return None

    def find_compiler_options(self, opaque_options: int, compiler_options: Any) -> None:
        """`LiteRtFindCompilerOptions`."""
        compiler_options[0] = self._handles.get(opaque_options, HostOpaqueOptions).compiler

    def get_num_custom_op_info(self, compiler_options: int, number: Any) -> None:
        """`LiteRtGetCompilerOptionsNumCustomOpInfo`."""
        number[0] = len(self._handles.get(compiler_options, HostCompilerOptions).custom_op_infos)

    def get_custom_op_info(
        self, compiler_options: int, index: int, op_name: Any, asset_path: Any
    ) -> None:
        """`LiteRtGetCompilerOptionsCustomOpInfo`."""
        infos = self._handles.get(compiler_options, HostCompilerOptions).custom_op_infos
        if index >= len(infos):
            raise LiteRtError(
                Status.INDEX_OOB,
                out_of_range("custom op info", index, len(infos)),
            )
        op_name[0], asset_path[0] = infos[index]


_table = OptionsTable()


def options_table() -> OptionsTable:
    """The table of options that the C functions of `symbol_library` read."""
    return _table


def _text(text: str) -> Any:
    return ffi.new("char[]", text.encode(errors="surrogateescape"))
