"""The structs and functions of `litert_npu/cpu_layer.h` for ctypes; a test compares them with a C compiler's."""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_float,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from enum import IntEnum

VERSION = 1
"""`LITERT_NPU_CPU_LAYER_VERSION`."""

MAX_RANK = 16
"""`LITERT_NPU_MAX_RANK`."""

ENTRY = "litert_npu_get_cpu_layer_library"


class CallStatus(IntEnum):
    """What functions of a library answer."""

    OK = 0
    ERROR = 1
    INVALID_ARGUMENT = 2
    NOT_IMPLEMENTED = 3
    OUT_OF_MEMORY = 4


class OptionType(IntEnum):
    """What an option's values are."""

    INT = 0
    FLOAT = 1
    TEXT = 2


class MessageStruct(Structure):
    """`LiteRtNpuMessage`."""

    _fields_ = (("text", POINTER(c_char)), ("size", c_size_t))


class TensorTypeStruct(Structure):
    """`LiteRtNpuTensorType`."""

    _fields_ = (("element_type", c_int32), ("rank", c_int32), ("dims", c_int64 * MAX_RANK))


class OperandStruct(Structure):
    """`LiteRtNpuOperand`."""

    _fields_ = (
        ("type", TensorTypeStruct),
        ("is_present", c_int32),
        ("is_constant", c_int32),
        ("num_scales", c_int32),
        ("quantized_dimension", c_int32),
        ("scales", POINTER(c_float)),
        ("zero_points", POINTER(c_int64)),
    )


class OptionStruct(Structure):
    """`LiteRtNpuOption`."""

    _fields_ = (
        ("key", c_char_p),
        ("type", c_int32),
        ("is_array", c_int32),
        ("count", c_size_t),
        ("values", c_void_p),
    )


class OpStruct(Structure):
    """`LiteRtNpuOp`."""

    _fields_ = (
        ("layer_type", c_char_p),
        ("name", c_char_p),
        ("num_inputs", c_size_t),
        ("num_outputs", c_size_t),
        ("inputs", POINTER(OperandStruct)),
        ("outputs", POINTER(OperandStruct)),
        ("options_size", c_size_t),
        ("options_data", c_void_p),
        ("num_options", c_size_t),
        ("options", POINTER(OptionStruct)),
    )


class LayoutStruct(Structure):
    """`LiteRtNpuLayout`."""

    _fields_ = (("rank", c_int32), ("order", c_int32 * MAX_RANK), ("block", c_int64 * MAX_RANK))


class TensorConfigStruct(Structure):
    """`LiteRtNpuTensorConfig`."""

    _fields_ = (
        ("element_type", c_int32),
        ("in_place", c_int32),
        ("needs_constant", c_int32),
        ("takes_view", c_int32),
        ("layout", LayoutStruct),
    )


class ConfigStruct(Structure):
    """`LiteRtNpuConfig`."""

    _fields_ = (
        ("inputs", POINTER(TensorConfigStruct)),
        ("outputs", POINTER(TensorConfigStruct)),
        ("dynamic_batch", c_int32),
    )


class TensorStruct(Structure):
    """`LiteRtNpuTensor`."""

    _fields_ = (
        ("data", c_void_p),
        ("type", TensorTypeStruct),
        ("memory_rank", c_int32),
        ("memory_dims", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
        ("offset", c_int64),
    )


LogCallback = CFUNCTYPE(None, c_void_p, c_int32, c_char_p)
"""`LiteRtNpuLogCallback`."""

_GetOutputShapes = CFUNCTYPE(
    c_int32, POINTER(OpStruct), POINTER(TensorTypeStruct), POINTER(MessageStruct)
)
_GetNumImplementations = CFUNCTYPE(c_size_t, POINTER(OpStruct), POINTER(MessageStruct))
_GetImplementationName = CFUNCTYPE(c_char_p, POINTER(OpStruct), c_size_t)
_GetNumConfigurations = CFUNCTYPE(c_size_t, POINTER(OpStruct), c_size_t)
_GetConfiguration = CFUNCTYPE(
    c_int32, POINTER(OpStruct), c_size_t, c_size_t, POINTER(ConfigStruct), POINTER(MessageStruct)
)
_Init = CFUNCTYPE(
    c_int32,
    POINTER(OpStruct),
    c_size_t,
    POINTER(ConfigStruct),
    POINTER(TensorStruct),
    POINTER(TensorStruct),
    POINTER(c_void_p),
    POINTER(MessageStruct),
)
_Execute = CFUNCTYPE(
    c_int32, c_void_p, POINTER(TensorStruct), POINTER(TensorStruct), POINTER(MessageStruct)
)


class LibraryStruct(Structure):
    """`LiteRtNpuCpuLayerLibrary`."""

    _fields_ = (
        ("interface_version", c_uint32),
        ("size", c_uint32),
        ("name", c_char_p),
        ("version", c_char_p),
        ("set_log_callback", CFUNCTYPE(None, c_void_p, c_void_p)),
        ("get_num_layer_types", CFUNCTYPE(c_size_t)),
        ("get_layer_type", CFUNCTYPE(c_char_p, c_size_t)),
        ("get_output_shapes", _GetOutputShapes),
        ("get_num_implementations", _GetNumImplementations),
        ("get_implementation_name", _GetImplementationName),
        ("get_num_configurations", _GetNumConfigurations),
        ("get_configuration", _GetConfiguration),
        ("init", _Init),
        ("execute", _Execute),
        ("destroy", CFUNCTYPE(None, c_void_p)),
    )
