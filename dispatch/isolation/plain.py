"""Converts the values that the host and the device process exchange to JSON values, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from dispatch.scheduling import SchedulingInfo
from dispatch.tensor_buffer import TensorBufferRequirements
from litert.core.element_type import ElementType
from litert.core.environment_options import EnvironmentOptions
from litert.core.tensor_type import Layout, RankedTensorType


def type_to_plain(tensor_type: RankedTensorType) -> list[Any]:
    """Converts a tensor type to JSON values."""
    return [int(tensor_type.element_type), tensor_type.shape, tensor_type.layout.strides]


def type_from_plain(plain: Sequence[Any]) -> RankedTensorType:
    """Converts JSON values to a tensor type."""
    element_type, shape, strides = plain
    layout = Layout(tuple(shape), None if strides is None else tuple(strides))
    return RankedTensorType(ElementType(element_type), layout)


def requirements_to_plain(wanted: TensorBufferRequirements) -> list[Any]:
    """Converts buffer requirements to JSON values."""
    types = [int(kind) for kind in wanted.supported_types]
    return [wanted.size, types, wanted.strides, wanted.alignment, wanted.shape]


def requirements_from_plain(plain: Sequence[Any]) -> TensorBufferRequirements:
    """Converts JSON values to buffer requirements."""
    return TensorBufferRequirements(*plain)


def scheduling_to_plain(info: SchedulingInfo) -> list[Any]:
    """Converts scheduling info to JSON values."""
    group = info.job_group_id
    return [
        info.original_uid, info.debug_feature_id, info.priority, None if group is None else group.hex(),
    ]  # fmt: skip


def scheduling_from_plain(plain: Sequence[Any]) -> SchedulingInfo:
    """Converts JSON values to scheduling info."""
    uid, feature, priority, group = plain
    job_group = None if group is None else bytes.fromhex(group)
    return SchedulingInfo(uid, feature, priority, job_group)


def environment_to_plain(options: EnvironmentOptions) -> dict[str, Any]:
    """Converts environment options to JSON values."""
    return asdict(options)
