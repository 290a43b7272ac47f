"""A compiler plugin in a child process: if the plugin crashes or hangs, the host only reports the failed call.

The host uses an isolated plugin like any other plugin. The plugin's name and version are read in a first child
process. The first plugin object that the host creates runs in this child process, too, and the process ends when
the object is closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from compiler_plugin.isolation.hosting import NATIVE_LOADER, Hosting, PluginProcess
from compiler_plugin.isolation.transport import (
    pack_model,
    pack_options,
    pack_subgraphs,
    replace_model,
    unpack_infos,
    unpack_model,
    unpack_result,
)
from compiler_plugin.plugin import (
    Companion,
    CompiledResult,
    CompilerPlugin,
    CompilerPluginFactory,
    Hardware,
    OpList,
)
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.environment_options import EnvironmentOptions
from litert.core.version import ApiVersion
from litert.model.graph import Model, Subgraph


class IsolatedPluginFactory(CompilerPluginFactory):
    """Factory of a plugin that runs in a child process."""

    def __init__(self, path: str, hosting: Hosting, loader: str = NATIVE_LOADER) -> None:
        """Loads a plugin file in a child process, and reads the plugin's name, version and SoC models.

        The argument `loader` is the same as that of `PluginProcess`.

        Raises:
          LiteRtError: Any error of the plugin's loader; RUNTIME_FAILURE, if the child process crashes;
            TIMEOUT_EXPIRED, if it hangs.
        """
        self._path = path
        self._hosting = hosting
        self._loader = loader
        session = hosting.take(path, loader)
        with _ending_on_error(session):
            said = session.load()
        self.api_version = ApiVersion(*said["api_version"])
        self.soc_manufacturer = said["soc_manufacturer"]
        self.soc_models = said["soc_models"]
        self.supported_hardware = Hardware(said["supported_hardware"])
        self.sdk_version = said["sdk_version"]
        self._idle: PluginProcess | None = session

    def check_compiler_compatibility(
        self, host_version: ApiVersion, soc_model: str, compiler_options: CompilerOptions
    ) -> None:
        session = self._take_session()
        arguments = [list(host_version), soc_model, pack_options(compiler_options)]
        with _ending_on_error(session):
            session.ask("check_compiler_compatibility", arguments)
        self._idle = session

    def create(
        self, environment_options: EnvironmentOptions, compiler_options: CompilerOptions
    ) -> CompilerPlugin:
        session = self._take_session()
        with _ending_on_error(session):
            return IsolatedPlugin(session, environment_options, compiler_options)

    def _take_session(self) -> PluginProcess:
        """Returns the idle session, or a new session; the caller owns the session."""
        session, self._idle = self._idle, None
        if session is None:
            session = self._hosting.take(self._path, self._loader)
            with _ending_on_error(session):
                session.load()
        return session


class IsolatedPlugin(CompilerPlugin):
    """A plugin object in a child process; `close` ends the child process."""

    def __init__(
        self,
        session: PluginProcess,
        environment_options: EnvironmentOptions,
        compiler_options: CompilerOptions,
    ) -> None:
        self._session = session
        options = [pack_options(environment_options), pack_options(compiler_options)]
        said = session.ask("create", options)
        self.data_layout = said["data_layout"]
        self.grouping = said["grouping"]
        self.takes_ir = said["takes_ir"]
        self._has_custom_layers: bool = said["has_custom_layers"]

    def has_transformations(self) -> bool:
        return bool(self._session.ask("has_transformations"))

    def transform(self, model: Model) -> Mapping[str, int]:
        if not self.has_transformations():
            return {}
        exchange = self._session.exchange
        said = self._session.ask("transform", pack_model(model, exchange))
        if said["model"] is not None:
            replace_model(model, unpack_model(said["model"], exchange))
        matches: Mapping[str, int] = said["matches"]
        return matches

    def partition(self, soc_model: str, subgraph: Subgraph, op_list: OpList) -> None:
        packed = pack_subgraphs([subgraph], self._session.exchange)
        said = self._session.ask("partition", [soc_model, packed])
        for position, partition_index in said["selected"]:
            op_list.push(subgraph.ops[position], partition_index)
        for position, reason in said["refusals"]:
            op_list.refuse(subgraph.ops[position], reason)

    def compile(self, soc_model: str, partitions: Sequence[Subgraph]) -> CompiledResult:
        exchange = self._session.exchange
        packed = pack_subgraphs(partitions, exchange)
        return unpack_result(self._session.ask("compile", [soc_model, packed]), exchange)

    def companions(self, op_name: str, asset_path: str, data: memoryview) -> Sequence[Companion]:
        packed = self._session.ask("companions", [op_name, asset_path])
        read = self._session.exchange.read
        return [Companion(path, read(reference)) for path, reference in packed]

    def custom_layers(
        self, paths: Sequence[str], op_names: Collection[str]
    ) -> Sequence[CustomOpInfo]:
        if not self._has_custom_layers:
            return super().custom_layers(paths, op_names)
        return unpack_infos(self._session.ask("custom_layers", [list(paths), sorted(op_names)]))

    def close(self) -> None:
        try:
            self._session.ask("close")
        finally:
            self._session.close()


@contextmanager
def _ending_on_error(session: PluginProcess) -> Iterator[None]:
    """Ends a session after an error in the block, because the error's traceback keeps the session alive."""
    try:
        yield
    except BaseException:
        session.close()
        raise
