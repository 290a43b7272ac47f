"""The SoC models of the reference vendor, with the resources of the emulated NPU."""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.counts import names_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.core.suggestion import did_you_mean
from vendor_reference.cost_model import EMULATED, CostModel

_MIB = 1 << 20
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class SocModel:
    """A SoC model.

    Attributes:
      name: Name of the SoC model: the value of `--soc_model`, which is also stored in the build stamp of each
        compiled file.
      shaves: Number of the SoC's vector processors (shaves).
      cmx_size: Size of the fast memory on the chip, in bytes; a kernel's local memory lies there.
      ddr_size: Size of the memory for data that pass from one task to another, in bytes.
      costs: Cost model with the expected times of ops on the SoC's NPU and on its CPU.
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
"""All SoC models; the first is the default."""


def get_soc_model(name: str) -> SocModel:
    """Returns the SoC model with the given name; for "", the default SoC model.

    Raises:
      LiteRtError: UNSUPPORTED, if there is no such SoC model; the message lists all SoC models.
    """
    models = {soc.name: soc for soc in SOC_MODELS}
    if soc := models.get(name or SOC_MODELS[0].name):
        return soc
    known = did_you_mean(name, models, f"{names_text('SoC model', list(models))}.")
    what = f"there is no SoC model '{name}'"
    raise LiteRtError(Status.UNSUPPORTED, what, "vendor 'Reference'", known)
