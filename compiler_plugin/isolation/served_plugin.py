"""The child process of an isolated compiler plugin, which loads the plugin and passes the host's calls to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from compiler_plugin.isolation.exchange import Exchange
from compiler_plugin.isolation.transport import (
    pack_model,
    pack_options,
    pack_result,
    unpack_model,
    unpack_options,
)
from compiler_plugin.plugin import CompilerPlugin, CompilerPluginFactory, OpList, has_optional
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import VENDOR_REPAIRS, LiteRtError, describe, last_line
from litert.core.status import Status
from litert.core.version import ApiVersion
from litert.host.child_side import load_function
from litert.host.serving import Handlers
from litert.host.vendor_call import is_foreign
from litert.model.blob import MappedFile
from litert.model.graph import Op


def serve_plugin(fd: int) -> Handlers:
    """Returns functions that answer the host's requests, by request. `fd` is the shared file's descriptor."""
    server = _Server(Exchange(fd))
    names = [name for name in vars(_Server) if not name.startswith("_")]
    return {name: partial(_answer, getattr(server, name)) for name in names}


def _answer(method: Callable[[Any], object], argument: Any) -> object:
    """Calls a method and returns its result; the host chooses the status for exceptions of Python plugins."""
    try:
        return method(argument)
    except LiteRtError:
        raise
    except MemoryError as error:
        raise LiteRtError(Status.MEMORY_ALLOCATION_FAILURE, "out of memory") from error
    except Exception as error:
        place = last_line(error, is_foreign)
        raise LiteRtError(Status.OK, describe(error), place, VENDOR_REPAIRS) from error


class _Server:
    """One plugin and its factory; each method handles the request of the same name."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._factory: CompilerPluginFactory
        self._plugin: CompilerPlugin

    def load(self, argument: Any) -> object:
        """Loads the factory, and returns its attributes without checking them."""
        loader, path = argument
        factory: CompilerPluginFactory = load_function(loader)(path)
        self._factory = factory
        return {
            "api_version": list(factory.api_version),
            "soc_manufacturer": factory.soc_manufacturer,
            "soc_models": list(factory.soc_models),
            "supported_hardware": int(factory.supported_hardware),
            "sdk_version": factory.sdk_version,
        }

    def check_compiler_compatibility(self, argument: Any) -> object:
        version, soc_model, options = argument
        self._factory.check_compiler_compatibility(
            ApiVersion(*version), soc_model, unpack_options(options)
        )
        return None

    def create(self, argument: Any) -> object:
        """Creates the plugin, and returns its attributes and whether it supports layer libraries."""
        environment, options = argument
        self._plugin = plugin = self._factory.create(
            EnvironmentOptions(**environment), unpack_options(options)
        )
        return {
            "data_layout": getattr(plugin, "data_layout", CompilerPlugin.data_layout),
            "grouping": getattr(plugin, "grouping", CompilerPlugin.grouping),
            "takes_ir": bool(getattr(plugin, "takes_ir", False)),
            "has_custom_layers": has_optional(plugin, "custom_layers"),
        }

    def has_transformations(self, argument: Any) -> object:
        plugin = self._plugin
        if not has_optional(plugin, "transform"):
            return False
        return not has_optional(plugin, "has_transformations") or plugin.has_transformations()

    def transform(self, argument: Any) -> object:
        """Returns how often each transformation has changed the model, and the model if it has changed."""
        model = unpack_model(argument, self._exchange)
        matches = dict(self._plugin.transform(model))
        changed = pack_model(model, self._exchange) if any(matches.values()) else None
        return {"matches": matches, "model": changed}

    def partition(self, argument: Any) -> object:
        """Returns, by position, the ops that the plugin takes with their partition index, and the refused ops."""
        soc_model, packed = argument
        (subgraph,) = unpack_model(packed, self._exchange).subgraphs
        op_list = OpList()
        self._plugin.partition(soc_model, subgraph, op_list)
        positions = {op: position for position, op in enumerate(subgraph.ops)}

        def position_of(op: Op) -> int:
            if op not in positions:
                raise LiteRtError(
                    Status.INVALID_ARGUMENT,
                    f"the plugin passed {op!r:.100} to op_list, but the subgraph has no such op",
                )
            return positions[op]

        return {
            "selected": [[position_of(s.op), s.partition_index] for s in op_list.selected],
            "refusals": [[position_of(op), why] for op, why in op_list.refusals.items()],
        }

    def compile(self, argument: Any) -> object:
        soc_model, packed = argument
        partitions = unpack_model(packed, self._exchange).subgraphs
        return pack_result(self._plugin.compile(soc_model, partitions), self._exchange)

    def companions(self, argument: Any) -> object:
        op_name, path = argument
        with MappedFile(path) as asset:
            found = self._plugin.companions(op_name, path, asset.view)
            return [[c.relative_path, self._exchange.put(c.blob.view)] for c in found]

    def custom_layers(self, argument: Any) -> object:
        paths, op_names = argument
        return pack_options(self._plugin.custom_layers(paths, op_names))

    def close(self, argument: Any) -> object:
        self._plugin.close()
        return None
