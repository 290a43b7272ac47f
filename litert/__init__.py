"""The runtime, which loads and runs models, including models that are compiled for an NPU.

Each public name of the package is imported at its first use, so that a program loads only the modules that it
uses.
"""

from __future__ import annotations

from importlib import import_module
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dispatch.event import Event as Event
    from litert.compiled_model import CompiledModel as CompiledModel
    from litert.core.compiler_options import CustomOpInfo as CustomOpInfo
    from litert.core.element_type import ElementType as ElementType
    from litert.core.environment_options import EnvironmentOptions as EnvironmentOptions
    from litert.core.errors import LiteRtError as LiteRtError
    from litert.core.status import Status as Status
    from litert.cpu_kernel_mode import CpuKernelMode as CpuKernelMode
    from litert.cpu_options import CpuOptions as CpuOptions
    from litert.environment import Environment as Environment
    from litert.gpu_options import GpuOptions as GpuOptions
    from litert.hardware_accelerator import HardwareAccelerator as HardwareAccelerator
    from litert.interpreter import Interpreter as Interpreter
    from litert.options import Options as Options
    from litert.runtime.metrics import CallMetrics as CallMetrics
    from litert.runtime.metrics import OpMetrics as OpMetrics
    from litert.runtime.metrics import RunMetrics as RunMetrics
    from litert.tensor_buffer import TensorBuffer as TensorBuffer

_MODULES = {
    "CallMetrics": "litert.runtime.metrics",
    "CompiledModel": "litert.compiled_model",
    "CpuKernelMode": "litert.cpu_kernel_mode",
    "CpuOptions": "litert.cpu_options",
    "CustomOpInfo": "litert.core.compiler_options",
    "ElementType": "litert.core.element_type",
    "Environment": "litert.environment",
    "EnvironmentOptions": "litert.core.environment_options",
    "Event": "dispatch.event",
    "GpuOptions": "litert.gpu_options",
    "HardwareAccelerator": "litert.hardware_accelerator",
    "Interpreter": "litert.interpreter",
    "LiteRtError": "litert.core.errors",
    "OpMetrics": "litert.runtime.metrics",
    "Options": "litert.options",
    "RunMetrics": "litert.runtime.metrics",
    "Status": "litert.core.status",
    "TensorBuffer": "litert.tensor_buffer",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _get_resource_reader(name: str) -> Any:
    from litert.stock_files import StockFiles

    return StockFiles()


if __spec__ is not None and isinstance(__spec__.loader, SourceFileLoader):
    vars(__spec__.loader)["get_resource_reader"] = _get_resource_reader  # only for `litert`
