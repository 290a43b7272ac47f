"""Options for a GPU, which this runtime ignores; the field names are those of `ai_edge_litert.gpu_options`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class GpuOptions:
    """GPU options, accepted so that programs for stock LiteRT run. The runtime ignores all GPU options."""

    enforce_f32: bool = False
    constant_tensor_sharing: bool = False
    infinite_float_capping: bool = False
    benchmark_mode: bool = False
    allow_src_quantized_fc_conv_ops: bool = False
    hint_waiting_for_completion: bool = False
