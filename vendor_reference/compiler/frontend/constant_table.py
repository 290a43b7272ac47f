"""The constants of a module: their bytes lie here, not in the IR, which names them by key."""

from __future__ import annotations

from collections.abc import Mapping

from litert.core.element_type import ElementType
from litert.core.tensor_type import RankedTensorType
from litert.model.blob import Blob
from litert.model.graph import Tensor
from vendor_reference.executable.executable import Constant, Dequantization


class ConstantTable:
    """Constants by the keys of their resources; what is the same is there once."""

    def __init__(self) -> None:
        self._constants: dict[str, Constant] = {}
        self._keys: dict[object, str] = {}

    @property
    def constants(self) -> Mapping[str, Constant]:
        """All of them, by key."""
        return self._constants

    def add(self, tensor: Tensor, dequantization: Dequantization | None = None) -> str:
        """The key of a constant tensor; those that share their data are stored once."""
        blob = tensor.buffer.blob
        assert blob is not None
        tensor_type = RankedTensorType.of(tensor.element_type, tensor.shape)
        same = (id(blob), tensor_type, repr(dequantization))  # the constant keeps the blob
        if same not in self._keys:
            key = f"constant_{len(self._constants)}"
            self._keys[same] = key
            self._constants[key] = Constant(tensor_type, blob, dequantization)
        return self._keys[same]

    def add_code(self, name: str, code: bytes) -> str:
        """The key of a layer's code, which is nothing that kernels read: bytes in an asset."""
        if name not in self._keys:
            key = f"code_{len(self._constants)}"
            self._keys[name] = key
            code_type = RankedTensorType.of(ElementType.UINT8, (len(code),))
            self._constants[key] = Constant(code_type, Blob(code))
        return self._keys[name]


def stored_dequantization(stored: Tensor) -> Dequantization:
    """How a quantized constant becomes float32; `find_refusal` has seen that it can."""
    if stored.element_type is ElementType.FLOAT16:
        return Dequantization()
    quantization = stored.quantization
    assert quantization is not None
    scales = [float(s) for s in quantization.scale]
    zero_points = [int(z) for z in quantization.zero_point] or [0] * len(scales)
    dimension = quantization.quantized_dimension if len(scales) > 1 else 0
    return Dequantization(scales, zero_points, dimension)
