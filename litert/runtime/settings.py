"""What a program's options mean here; what this runtime cannot do is refused, or left out with a warning."""

from __future__ import annotations

import logging
import operator

from litert.core.compiler_options import CompilerOptions
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.cpu_kernel_mode import CpuKernelMode
from litert.environment import Environment
from litert.hardware_accelerator import HardwareAccelerator
from litert.options import CpuOptions, Options
from litert.runtime.interpreter import CpuKernels, CpuSettings
from litert.runtime.jit_settings import JitSettings
from litert.runtime.loading import LoadSettings

_KERNELS = {
    CpuKernelMode.DELEGATE: CpuKernels.XNNPACK,
    CpuKernelMode.BUILTIN: CpuKernels.BUILTIN,
    CpuKernelMode.REFERENCE: CpuKernels.REFERENCE,
}
_LOG = logging.getLogger(__name__)


def load_settings(environment: Environment, options: Options) -> LoadSettings:
    """How a model is to be loaded.

    Raises:
      LiteRtError: INVALID_ARGUMENT or UNSUPPORTED, for options that cannot be met.
    """
    accelerators = HardwareAccelerator(int(options.hardware_accelerators))
    if not accelerators & (HardwareAccelerator.CPU | HardwareAccelerator.NPU):
        raise LiteRtError(
            Status.UNSUPPORTED if accelerators else Status.INVALID_ARGUMENT,
            "this runtime has no GPU" if accelerators else "no hardware is given to run on",
            hint="Add HardwareAccelerator.CPU.",
        )
    if accelerators & HardwareAccelerator.GPU:
        _LOG.warning("This runtime has no GPU: the rest of %r runs the model", accelerators)
    return LoadSettings(
        environment=environment.options,
        dispatch_options=options.all_dispatch_options(),
        cpu=_cpu_settings(options.cpu_options),
        is_cpu_allowed=bool(accelerators & HardwareAccelerator.CPU),
        is_npu_wanted=bool(accelerators & HardwareAccelerator.NPU),
        check_all_digests=options.check_digests,
        jit=_jit_settings(options) if accelerators & HardwareAccelerator.NPU else None,
    )


def _jit_settings(options: Options) -> JitSettings:
    if options.soc_model and not options.soc_manufacturer:
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"a SoC model, '{options.soc_model}', and no manufacturer",
            "Options.soc_model",
            "Name the manufacturer in Options.soc_manufacturer.",
        )
    compiler = CompilerOptions(
        options.custom_op_infos,
        check_kernels=options.check_kernels,
        allow_native_assets=options.allow_native_assets,
        vendor_options=options.compiler_options,
        custom_layers=options.custom_layers,
        asset_root=options.asset_root,
        shape_bounds=options.shape_bounds,
    )
    return JitSettings(
        options.soc_manufacturer, options.soc_model, compiler, options.stock_compiler_flags()
    )


def _cpu_settings(options: CpuOptions) -> CpuSettings:
    try:
        mode = CpuKernelMode(options.kernel_mode or CpuKernelMode.DELEGATE)
    except ValueError as error:
        raise LiteRtError(Status.INVALID_ARGUMENT, str(error), "CpuOptions.kernel_mode") from None
    if options.xnnpack_flags is not None or options.xnnpack_weight_cache_path:
        _LOG.warning("XNNPACK runs with stock's own flags, and without a weight cache")
    return CpuSettings(max(1, operator.index(options.num_threads)), _KERNELS[mode])
