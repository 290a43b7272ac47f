"""Which options of builtin ops plugins read and write, in the order in which a builder's arguments are."""

from __future__ import annotations

from collections.abc import Mapping

_ACT = "fused_activation"
_STRIDES = ("stride_w", "stride_h")
_POOL = ("padding", *_STRIDES, "filter_width", "filter_height", _ACT)
_REDUCE = ("keep_dims",)
_CORNERS = ("align_corners", "half_pixel_centers")

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "add": (_ACT,),
    "average_pool_2d": _POOL,
    "batch_matmul": ("adj_x", "adj_y", "asymmetric_quantize_input"),
    "concatenation": (_ACT, "axis"),
    "conv_2d": ("padding", *_STRIDES, "dilation_w", "dilation_h", _ACT),
    "conv_3d": (
        "padding", *_STRIDES, "stride_d", "dilation_w", "dilation_h", "dilation_d", _ACT,
    ),
    "cumsum": ("exclusive", "reverse"),
    "depth_to_space": ("block_size",),
    "depthwise_conv_2d": (
        "padding", *_STRIDES, "depth_multiplier", _ACT, "dilation_w", "dilation_h",
    ),
    "div": (_ACT,),
    "fully_connected": (
        _ACT, "weights_format", "keep_num_dims", "quantized_bias_type", "asymmetric_quantize_input",
    ),
    "gather": ("axis", "batch_dims"),
    "gelu": ("approximate",),
    "l2_pool_2d": _POOL,
    "leaky_relu": ("alpha",),
    "max_pool_2d": _POOL,
    "mean": _REDUCE,
    "mirror_pad": ("mode",),
    "mul": (_ACT,),
    "one_hot": ("axis",),
    "pack": ("axis", "values_count"),
    "reduce_all": _REDUCE,
    "reduce_any": _REDUCE,
    "reduce_max": _REDUCE,
    "reduce_min": _REDUCE,
    "resize_bilinear": _CORNERS,
    "resize_nearest_neighbor": _CORNERS,
    "softmax": ("beta",),
    "space_to_depth": ("block_size",),
    "split": ("num_splits",),
    "split_v": ("num_splits",),
    "strided_slice": (
        "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset",
    ),
    "sub": (_ACT,),
    "sum": _REDUCE,
    "transpose_conv": ("padding", *_STRIDES, _ACT),
    "unpack": ("axis", "num"),
}  # fmt: skip
"""By the op's name in the slots; RESHAPE, SQUEEZE and composites, which have lists, are not here."""

_SCHEMA_NAMES = {
    _ACT: "fused_activation_function",
    "asymmetric_quantize_input": "asymmetric_quantize_inputs",
    "dilation_w": "dilation_w_factor",
    "dilation_h": "dilation_h_factor",
    "dilation_d": "dilation_d_factor",
}


def schema_name(field: str) -> str:
    """What the TFLite schema calls an option."""
    return _SCHEMA_NAMES.get(field, field)
