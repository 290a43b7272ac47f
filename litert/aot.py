"""A backend for stock LiteRT's Python compile flow.

Importing `litert.aot` registers this project's compiler with stock LiteRT.

```python
import litert.aot
from ai_edge_litert.aot import aot_compile

target = litert.aot.Target("Reference", "EMU8")
infos = [litert.CustomOpInfo("Sinh", "Sinh.cl")]
result = aot_compile.aot_compile("model.tflite", target=target, custom_op_infos=infos)
```

Besides the target, `aot_compile` and `CompilationConfig` accept the fields of `ApplyOptions` and `CompilerOptions`
by name, for example `require_npu` and `max_partitions`. They also accept vendors' options by the names of the
flags, for example `reference_ops="all"`. If no target is given, stock LiteRT compiles for each registered backend.
This backend then compiles for each SoC model of each installed vendor.
"""

from __future__ import annotations

import copy
import logging
import os
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ai_edge_litert.aot.core import aot_types, components
from ai_edge_litert.aot.vendors import import_vendor

from compiler_plugin.pipeline import ApplyOptions, apply_in_memory
from compiler_plugin.registry import load_plugin
from compiler_plugin.report import Report
from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from litert.core.vendor_names import is_option_of
from litert.host.extensions import COMPILER_PLUGINS, find_entry_points
from litert.host.file_seal import user_seal
from litert.model.writer import write_model
from litert.options import flag_text

BACKEND_ID = "litert_npu"

_STOCKS_OWN = ("backend_id", "compilation_config", "quantize_recipe")
_OF_TARGET = ("soc_manufacturer", "soc_model", "libs")
_OF_HOST = [
    field.name
    for field in fields(ApplyOptions)
    if field.name not in (*_OF_TARGET, "subgraphs", "compiler")
]
_OF_COMPILER = [field.name for field in fields(CompilerOptions) if field.name != "vendor_options"]

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Target(aot_types.Target):  # type: ignore[misc]  # stock LiteRT's classes have no types
    """The NPUs for which stock LiteRT's `aot_compile` compiles a model.

    Attributes:
      soc_manufacturer: Vendor of the NPU; "" for all installed vendors.
      soc_model: SoC model; "" for all SoC models of the vendor.
      libs: Folders with compiler plugins, searched in addition to the installed plugins.
    """

    soc_manufacturer: str = ""
    soc_model: str = ""
    libs: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Returns the text that stock LiteRT puts into the name of the output file."""
        return "_".join(filter(None, [self.soc_manufacturer, self.soc_model]))

    @classmethod
    def backend_id(cls) -> str:
        return BACKEND_ID

    def flatten(self) -> dict[str, Any]:
        return {"backend_id": BACKEND_ID, **asdict(self)}


@import_vendor.register_backend
class LiteRtNpuBackend(aot_types.Backend):  # type: ignore[misc]
    """The compiler of `apply_plugin` as a backend of stock LiteRT, for one target, or for several targets."""

    @classmethod
    def create(cls, config: MutableMapping[str, Any]) -> LiteRtNpuBackend:
        if config.get("backend_id") != BACKEND_ID:
            raise ValueError(f"backend {config.get('backend_id')!r} is not {BACKEND_ID}")
        return cls(config)

    @classmethod
    def id(cls) -> str:
        return BACKEND_ID

    @property
    def target(self) -> Target:
        config = self.config
        return Target(self.soc_manufacturer, self.soc_model, tuple(config.get("libs", ())))

    @property
    def target_id(self) -> str:
        return repr(self.target)

    @property
    def soc_manufacturer(self) -> str:
        return str(self.config.get("soc_manufacturer", ""))

    @property
    def soc_model(self) -> str:
        return str(self.config.get("soc_model", ""))

    @property
    def shared_pass_names(self) -> list[str]:
        return []

    @property
    def quantize_recipe(self) -> str | None:
        recipe: str | None = self.config.get("quantize_recipe")
        return recipe

    def specialize(self) -> Iterator[LiteRtNpuBackend]:
        """Yields a backend for each SoC model that the target includes."""
        named = self.soc_manufacturer
        for manufacturer in [named] if named else sorted(find_entry_points(COMPILER_PLUGINS)):
            for soc_model in [self.soc_model] if self.soc_model else self._models(manufacturer):
                config = copy.copy(self.config)
                config.update(soc_manufacturer=manufacturer, soc_model=soc_model)
                yield self.create(config)

    def call_component(
        self, input_model: aot_types.Model, output_model: aot_types.Model, component: Any
    ) -> None:
        """Runs one step of stock LiteRT's compile flow.

        Raises:
          ValueError: The compiler's error, converted to a type that stock LiteRT's compile flow expects.
          NotImplementedError: If the step is unknown, for example because it is new in a later version of stock
            LiteRT.
        """
        if isinstance(component, components.ApplyPluginT):
            subgraphs = getattr(component, "_subgraphs_to_compile", None)
            try:
                self._compile(input_model, output_model, subgraphs or ())
            except LiteRtError as error:
                raise ValueError(str(error)) from error
        elif isinstance(component, components.MlirTransformsT):
            output_model.data_ = input_model.data_  # this backend needs no pass
        elif isinstance(component, components.AieQuantizerT):
            component(input_model, output_model, quantization_recipe=self.quantize_recipe)
        else:
            name = component.component_name
            raise NotImplementedError(f"the backend {BACKEND_ID} has no component {name}")

    def _models(self, manufacturer: str) -> Sequence[str]:
        try:
            return load_plugin(manufacturer, self.target.libs).factory.soc_models
        except LiteRtError as error:
            raise ValueError(str(error)) from error

    def _compile(
        self, source: aot_types.Model, output: aot_types.Model, subgraphs: Sequence[int]
    ) -> None:
        data = source.model_bytes if source.in_memory else os.fspath(source.path)
        target = os.fspath(output.path)
        with apply_in_memory(data, self._options(subgraphs), target=target) as (model, report):
            write_model(model, target, seal=user_seal(report.warnings.append))
        last = [report.why_not_runnable] if report.not_runnable else []
        for warning in [*report.warnings, *last]:
            _LOG.warning("%s: %s", self.target_id, warning)
        output.partition_stats = _partition_stats(report)

    def _options(self, subgraphs: Sequence[int]) -> ApplyOptions:
        given = {**self.config.get("compilation_config", {}), **self.config}
        host: dict[str, Any] = {}
        compiler: dict[str, Any] = {}
        vendor: dict[str, str] = {}
        for name, value in given.items():
            if name in _STOCKS_OWN or name in _OF_TARGET:
                continue
            if name in _OF_HOST:
                host[name] = value
            elif name in _OF_COMPILER:
                compiler[name] = value
            elif is_option_of(self.soc_manufacturer, name):
                vendor[name] = flag_text(value)
            elif not _is_of_another(name):
                known = [*_OF_HOST, *_OF_COMPILER]
                raise LiteRtError(
                    Status.INVALID_TOOL_CONFIG,
                    f"unknown option '{name}'",
                    f"compiling for {self.target_id}",
                    did_you_mean(
                        name,
                        known,
                        f"The options are {', '.join(known)}, and the options of vendor "
                        f"'{self.soc_manufacturer}', which begin with the vendor's name.",
                    ),
                )
        target = self.target
        return ApplyOptions(
            target.soc_manufacturer,
            target.soc_model,
            target.libs,
            subgraphs,
            compiler=CompilerOptions(**compiler, vendor_options=vendor),
            **host,
        )


def _is_of_another(option: str) -> bool:
    """Returns whether an option is for another backend: `aot_compile` passes all options to every backend."""
    registry: Mapping[str, object] = import_vendor._VENDOR_REGISTRY
    vendors = [*registry, *find_entry_points(COMPILER_PLUGINS)]
    return any(is_option_of(vendor, option) for vendor in vendors)


def _partition_stats(report: Report) -> aot_types.PartitionStats:
    ops = Counter(op.subgraph for op in report.ops)
    taken = Counter(op.subgraph for op in report.npu_ops)
    calls = Counter(call.subgraph for call in report.calls)
    return aot_types.PartitionStats(
        [
            aot_types.SubgraphPartitionStats(index, taken[index], ops[index], calls[index])
            for index in sorted(ops)
        ]
    )
