"""Runs a Python plugin in a host of another project, and does work that this project's own host normally does.

A host of another project requests ops and byte code, but cannot handle compile errors or assets. Therefore this
module groups and compiles the ops as soon as the host requests ops, and offers only those that the vendor can
compile. The assets are packed with the byte code (`litert.model.byte_code_container`), and the content of the
report is logged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler_plugin.asset_files import (
    check_native_assets,
    layers_for_any_model,
    open_assets,
    read_assets,
)
from compiler_plugin.compiling import compile_copies
from compiler_plugin.graph_copy import CopiedData, copy_ops
from compiler_plugin.native.exported.host_context import HostContext
from compiler_plugin.native.exported.offer import DYNAMIC, make_offer
from compiler_plugin.native.exported.options import CUSTOM_OP_INFO_VARIABLE
from compiler_plugin.native.exported.stock_model import read_model, read_subgraph, why_unclear
from compiler_plugin.plan import SubgraphPlan
from compiler_plugin.plugin import CallInfo, CompiledResult, has_optional
from compiler_plugin.registry import RegisteredPlugin, choose_soc_model
from compiler_plugin.transforming import prepare_partitions
from compiler_plugin.vendor_plugin import NO_REASON, Taken, VendorPlugin
from litert.core.compiler_options import CompilerOptions, CustomOpInfo
from litert.core.counts import count_text
from litert.core.environment_options import EnvironmentOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.version import ApiVersion
from litert.host.vendor_call import VendorCall
from litert.model.assets import Asset
from litert.model.blob import Blob
from litert.model.byte_code_container import pack
from litert.model.graph import Subgraph
from litert.model.stamp import UNSAID_SOC_MODEL

_logger = logging.getLogger(__name__)


class ExportedPlugin:
    """A vendor's plugin that a host has created through the C functions.

    Attributes:
      refusals: Reasons why ops of the last subgraph stay on the CPU, by position of the op.
      names_with_assets: Names of the ops with an asset from the user.
    """

    def __init__(
        self,
        registered: RegisteredPlugin,
        context: HostContext,
        environment: EnvironmentOptions,
        options: CompilerOptions,
        embedded: Collection[str],
    ) -> None:
        """Stores the settings; the vendor's plugin is created later, when the host specifies a SoC model.

        Args:
          registered: Plugin of the vendor.
          context: Compiler context of the host.
          environment: Environment options of the host.
          options: Options of the plugin.
          embedded: Names of the ops whose assets are embedded in the model by the host itself; the host does not
            embed companion files.
        """
        self._registered = registered
        self._context = context
        self._environment = environment
        self._options = options
        self._embedded = embedded
        self.refusals: Mapping[int, str] = {}
        self.names_with_assets = {info.op_name for info in options.custom_op_infos}
        self._found: dict[str, CustomOpInfo] = {}  # among --custom_layers
        self._vendors: dict[str, _Vendor] = {}
        self._warnings: list[str] = []

    def check_compatibility(self, host_version: ApiVersion, soc_model: str) -> None:
        """Checks that the vendor's plugin supports the host's version, the SoC model and the options.

        Raises:
          LiteRtError: UNSUPPORTED, if the vendor does not have the SoC model; any error that the vendor's plugin
            raises.
        """
        factory = self._registered.factory
        try:
            chosen = self._choose(soc_model)
        except LiteRtError as error:
            raise LiteRtError(Status.UNSUPPORTED, error.what, error.where, error.hint) from error
        call, status = "check_compiler_compatibility", Status.UNSUPPORTED_COMPILER_VERSION
        with VendorCall(factory.soc_manufacturer, call, status):
            factory.check_compiler_compatibility(host_version, chosen, self._options)
        self._vendor(chosen)

    def partition(self, soc_model: str, subgraph: Any) -> Sequence[tuple[Any, int]]:
        """Finds the ops of a subgraph that the vendor's plugin takes and can compile.

        Args:
          soc_model: SoC model to compile for; "" lets the plugin choose.
          subgraph: Handle of the subgraph, a `LiteRtSubgraph`.

        Returns:
          Handles of the ops that go to the NPU (`LiteRtOp`), each with its partition index; indices start at 1.
        """
        vendor = self._vendor(soc_model)
        stock = read_subgraph(self._context, subgraph)
        self._find_custom_layers(vendor, stock.subgraph)
        plan = make_offer(vendor, stock.subgraph, "the subgraph", self._options.max_partitions)
        self.refusals = {p: why for p, why in plan.reasons.items() if why != NO_REASON}
        self._report(plan)
        self._report_unused(stock.subgraph)
        return [
            (stock.handles[op], number)
            for number, partition in enumerate(plan.partitions, 1)
            for op in partition.ops
        ]

    def compile(self, soc_model: str, model: Any) -> CompiledResult:
        """Compiles a `LiteRtModel` in which each subgraph is a partition.

        Returns:
          The byte code, packed with the assets that the host does not embed, and one NPU call for each subgraph.
        """
        vendor = self._vendor(soc_model)
        partitions = [stock.subgraph for stock in read_model(self._context, model)]
        result = _compile(vendor, partitions)
        for call in result.calls:
            if call.shape_outputs:
                raise LiteRtError(Status.UNSUPPORTED, DYNAMIC, f"function '{call.name}'")
        for note in result.notes:
            _logger.info("%s: %s", vendor.vendor, note)
        infos = [*self._options.custom_op_infos, *self._found.values()]
        with open_assets(
            infos, f"Check the file's path in ${CUSTOM_OP_INFO_VARIABLE} or in the host's options."
        ) as files:
            assets = read_assets(vendor, infos, files)
            check_native_assets(result.native_assets, assets, vendor.vendor)
            for name in result.native_assets:
                _logger.info(
                    "%s: asset '%s' contains machine code, which runs only with allow_native_assets",
                    vendor.vendor,
                    name,
                )
            names: list[set[str]] = [set() for _ in result.byte_code]
            for call, partition in zip(result.calls, partitions, strict=True):
                names[call.byte_code_index].update(op.name for op in partition.ops)
            modules = [
                self._pack(module, [asset for asset in assets if asset.op_name in used])
                for module, used in zip(result.byte_code, names, strict=True)
            ]
        return CompiledResult(modules, result.calls)

    def close(self) -> None:
        """Closes the vendor's plugins; there is one plugin for each SoC model."""
        for vendor in self._vendors.values():
            vendor.__exit__()
        self._vendors.clear()
        self._warn()

    def _choose(self, soc_model: str) -> str:
        models = self._registered.factory.soc_models
        if soc_model == UNSAID_SOC_MODEL and soc_model not in models:
            soc_model = ""
        return choose_soc_model(self._registered, soc_model)

    def _vendor(self, soc_model: str) -> _Vendor:
        soc_model = self._choose(soc_model)
        if soc_model not in self._vendors:
            vendor = _Vendor(
                self._registered, soc_model, self._environment, self._options, self._warnings
            )
            self._vendors[soc_model] = vendor
            _logger.info("vendor %s compiles for SoC model %s", vendor.vendor, soc_model)
            if vendor.has_transformations:
                _logger.warning(
                    "%s: the plugin's transformations run only in litert-npu's apply_plugin, "
                    "not in this host",
                    vendor.vendor,
                )
            self._warn()
        return self._vendors[soc_model]

    def _find_custom_layers(self, vendor: _Vendor, subgraph: Subgraph) -> None:
        known = self.names_with_assets | self._found.keys()
        if names := {op.name for op in subgraph.ops} - known:
            found = layers_for_any_model(vendor, self._options, names)
            self._found.update({info.op_name: info for info in found})

    def _pack(self, module: Blob, assets: Sequence[Asset]) -> Blob:
        """Packs a module with the assets of its ops, unless the host embeds all of these assets."""
        is_all_embedded = all(
            asset.op_name in self._embedded and not asset.companion_path for asset in assets
        )
        return module if is_all_embedded else Blob(pack(module, assets))

    def _report(self, plan: SubgraphPlan) -> None:
        """Logs what `apply_plugin` would have reported."""
        vendor, num_ops = self._registered.factory.soc_manufacturer, len(plan.subgraph.ops)
        count = sum(len(partition.ops) for partition in plan.partitions)
        _logger.info(
            "%s takes %d of %d ops, in %d partitions", vendor, count, num_ops, len(plan.partitions)
        )
        ops = plan.subgraph.ops
        staying = Counter((ops[position].name, why) for position, why in plan.reasons.items())
        for (name, reason), number in staying.items():
            level = logging.WARNING if name in self.names_with_assets else logging.INFO
            if reason == NO_REASON:
                level = logging.DEBUG
            ops_text = f"{count_text(number, 'op')} ({name})"
            _logger.log(level, "vendor %s leaves %s on the CPU: %s", vendor, ops_text, reason)
        self._warn()

    def _report_unused(self, subgraph: Subgraph) -> None:
        """Logs assets and shape bounds of the user that do not fit the host's subgraph."""
        vendor = self._registered.factory.soc_manufacturer
        known = {*(op.name for op in subgraph.ops), *self._embedded}
        for info in self._options.custom_op_infos:
            if info.op_name not in known:
                _logger.warning(
                    "%s: an asset is given for op '%s', but the subgraph has no such op",
                    vendor,
                    info.op_name,
                )
        tensors = {tensor.name: tensor for tensor in subgraph.tensors}
        for name in self._options.shape_bounds:
            if name not in tensors:
                _logger.warning(
                    "%s: a shape bound is given for tensor '%s', but the subgraph has no such "
                    "tensor",
                    vendor,
                    name,
                )
            elif tensors[name].type.layout.is_static:
                _logger.warning(
                    "%s: the shape bound of tensor '%s' is ignored, because this host gives the tensor "
                    "the fixed shape %s",
                    vendor,
                    name,
                    tensors[name].type,
                )

    def _warn(self) -> None:
        for warning in self._warnings:
            _logger.warning("%s", warning)
        self._warnings.clear()


class _Vendor(VendorPlugin):
    """A vendor's plugin that does not take ops which cannot be read completely from the host."""

    @property
    def has_transformations(self) -> bool:
        """Whether the plugin has transformations, which only this project's host can run."""
        return has_optional(self._plugin, "transform")

    def partition(self, subgraph: Subgraph, where: str) -> Taken:
        taken = super().partition(subgraph, where)
        for op in list(taken.selected):
            if why := why_unclear(op):
                taken.reasons[op] = why
                del taken.selected[op]
        return taken


def _compile(vendor: VendorPlugin, partitions: Sequence[Subgraph]) -> CompiledResult:
    """Compiles copies of partitions together; if the vendor refuses this, compiles them one by one."""
    prepare = prepare_partitions(vendor.data_layout)

    def compile_some(some: Sequence[Subgraph]) -> CompiledResult:
        data = CopiedData()
        copies = [copy_ops(p.name, p.inputs, p.ops, p.outputs, data) for p in some]
        return compile_copies(vendor, copies, prepare)

    try:
        return compile_some(partitions)
    except LiteRtError as error:
        if error.status is not Status.UNSUPPORTED or len(partitions) < 2:
            raise
    modules: list[Blob] = []
    calls: list[CallInfo] = []
    notes: dict[str, None] = {}
    native: dict[str, None] = {}
    for partition in partitions:
        result = compile_some([partition])
        calls += [
            replace(call, byte_code_index=call.byte_code_index + len(modules))
            for call in result.calls
        ]
        modules += result.byte_code
        notes.update(dict.fromkeys(result.notes))
        native.update(dict.fromkeys(result.native_assets))
    return CompiledResult(modules, calls, list(notes), list(native))
