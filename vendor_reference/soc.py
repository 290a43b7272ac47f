"""The SoC models of the reference vendor: what the emulated NPU has."""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.cost_model import EMULATED, CostModel

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SocModel:
    """A SoC model.

    Attributes:
      name: `--soc_model`, and in the stamp of each compiled file.
      shaves: vector processors.
      cmx_size: fast memory on the chip, in bytes; a kernel's local memory lies in it.
      ddr_size: memory for what lives between two tasks, in bytes.
      costs: how long ops are expected to take on it, and on the CPU beside it.
    """

    name: str
    shaves: int
    cmx_size: int
    ddr_size: int
    costs: CostModel = EMULATED


EMU4 = SocModel("EMU4", 4, 1 * _MIB, 1 * _GIB)
EMU8 = SocModel("EMU8", 8, 2 * _MIB, 2 * _GIB)
EMU16 = SocModel("EMU16", 16, 4 * _MIB, 4 * _GIB)

SOC_MODELS = (EMU8, EMU4, EMU16)
"""The first is the default."""


def get_soc_model(name: str) -> SocModel:
    """The SoC model of that name; the default for "".

    Raises:
      LiteRtError: UNSUPPORTED, with the names there are.
    """
    models = {soc.name: soc for soc in SOC_MODELS}
    if soc := models.get(name or SOC_MODELS[0].name):
        return soc
    known = f"Known: {', '.join(models)}."
    raise LiteRtError(Status.UNSUPPORTED, f"no SoC model '{name}'", "vendor 'Reference'", known)
