"""The parts of TensorFlow Lite's C structs that a delegate uses (LiteRT: `tflite/core/c/common.h`).

The order and sizes of the fields are the same in every release of `ai-edge-litert` from 1.2.0 to 2.3.0;
`abi_check` checks the installed release. The module uses ctypes, because ctypes does not parse declarations at
import.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)
from enum import IntEnum

OK, ERROR = 0, 1
"""`TfLiteStatus`."""

ALLOW_DYNAMIC_TENSORS = 1
"""`kTfLiteDelegateFlagsAllowDynamicTensors`."""

CUSTOM, DELEGATE = 32, 51
"""`kTfLiteBuiltinCustom`, `kTfLiteBuiltinDelegate`."""


class Allocation(IntEnum):
    """`TfLiteAllocationType`: how the memory of a tensor is allocated."""

    NONE = 0
    MMAP_RO = 1
    ARENA_RW = 2
    ARENA_RW_PERSISTENT = 3
    DYNAMIC = 4
    PERSISTENT_RO = 5
    CUSTOM = 6
    VARIANT_OBJECT = 7
    NON_CPU = 8


class Tensor(Structure):
    """`TfLiteTensor`."""

    _fields_ = (
        ("type", c_int),
        ("data", c_void_p),
        ("dims", c_void_p),
        ("scale", c_float),
        ("zero_point", c_int32),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_char_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization_type", c_int),
        ("quantization_params", c_void_p),
        ("sparsity", c_void_p),
        ("dims_signature", c_void_p),
    )


class Node(Structure):
    """`TfLiteNode`."""

    _fields_ = (
        ("inputs", c_void_p),
        ("outputs", c_void_p),
        ("intermediates", c_void_p),
        ("temporaries", c_void_p),
        ("user_data", c_void_p),
        ("builtin_data", c_void_p),
        ("custom_initial_data", c_void_p),
        ("custom_initial_data_size", c_int),
        ("delegate", c_void_p),
        ("might_have_side_effect", c_bool),
    )


class Registration(Structure):
    """`TfLiteRegistration`. The struct is passed by value; zeros at its end leave space for later fields."""

    _fields_ = (
        ("init", c_void_p),
        ("free", c_void_p),
        ("prepare", c_void_p),
        ("invoke", c_void_p),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
        ("tail", c_uint64 * 8),
    )


class Delegate(Structure):
    """`TfLiteDelegate`."""

    _fields_ = (
        ("data", c_void_p),
        ("prepare", c_void_p),
        ("copy_from_buffer_handle", c_void_p),
        ("copy_to_buffer_handle", c_void_p),
        ("free_buffer_handle", c_void_p),
        ("flags", c_int64),
        ("opaque_delegate_builder", c_void_p),
    )


class DelegateParameters(Structure):
    """The first fields of `TfLiteDelegateParams`, which is passed to a delegate's kernel as `builtin_data`."""

    _fields_ = (("delegate", c_void_p), ("nodes_to_replace", c_void_p))


class Context(Structure):
    """The first fields of `TfLiteContext`, which has further fields."""

    _fields_ = (
        ("tensors_size", c_size_t),
        ("get_execution_plan", c_void_p),
        ("tensors", c_void_p),
        ("impl", c_void_p),
        ("resize_tensor", c_void_p),
        ("report_error", c_void_p),
        ("add_tensors", c_void_p),
        ("get_node_and_registration", c_void_p),
        ("replace_node_subsets_with_delegate_kernels", c_void_p),
        ("recommended_num_threads", c_int),
        ("get_external_context", c_void_p),
        ("set_external_context", c_void_p),
        ("allow_fp32_relax_to_fp16", c_bool),
        ("profiler", c_void_p),
    )


# Arguments are the context, then the function's own; all functions return a status.
GetExecutionPlan = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))
GetNodeAndRegistration = CFUNCTYPE(c_int, c_void_p, c_int, POINTER(c_void_p), POINTER(c_void_p))
ResizeTensor = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
ReplaceNodeSubsets = CFUNCTYPE(c_int, c_void_p, Registration, c_void_p, c_void_p)


def read_int_array(address: int | None) -> tuple[int, ...]:
    """Returns the elements of a `TfLiteIntArray`; for NULL, there are no elements."""
    if not address:
        return ()
    numbers = _IntArray.from_address(address)
    size = numbers[0]
    if size <= _MOST_VIEWED:
        return tuple(numbers[1 : 1 + size])
    return struct.unpack(f"{size}i", ctypes.string_at(address + _INT_SIZE, size * _INT_SIZE))


def one_int(value: int) -> ctypes.Array[c_int]:
    """Allocates a `TfLiteIntArray` of one element in Python's memory; its receiver must not store the array."""
    return _OneInt(1, value)


def allocate_int_array(values: Sequence[int]) -> int:
    """Allocates a `TfLiteIntArray` with C's `malloc`; returns its address. The array's receiver frees it."""
    data = struct.pack(f"{1 + len(values)}i", len(values), *values)
    address = _malloc(len(data))
    if not address:
        raise MemoryError
    ctypes.memmove(address, data, len(data))
    return int(address)


def view_word(address: int) -> memoryview[int]:
    """Returns a view of a pointer in memory; `view[0]` is four times as fast as a field of a ctypes struct."""
    return memoryview(_Word.from_address(address)).cast("B").cast("P")


# Made once, because each new array type is garbage with reference cycles.
_OneInt = c_int * 2
_MOST_VIEWED = 16  # size of an array that is read in place, in half the time
_IntArray = c_int * (1 + _MOST_VIEWED)
_Word = ctypes.c_ubyte * ctypes.sizeof(c_void_p)

_INT_SIZE = ctypes.sizeof(c_int)
_malloc = ctypes.CDLL(None).malloc
_malloc.restype = c_void_p
_malloc.argtypes = (c_size_t,)
