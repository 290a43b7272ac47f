"""What a module is compiled for: `builtin.module attributes {VPUIP.soc = "EMU8"}`."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr

from litert.core.errors import LiteRtError
from litert.core.status import Status
from vendor_reference.soc import SocModel, get_soc_model

SOC = "VPUIP.soc"


def soc_of(module: ModuleOp) -> SocModel:
    """The SoC that a module names; the default one where it names none.

    Raises:
      LiteRtError: INVALID_ARGUMENT, if it is no text; UNSUPPORTED, if there is no such SoC.
    """
    attribute = module.attributes.get(SOC)
    if attribute is None:
        return get_soc_model("")
    if not isinstance(attribute, StringAttr):
        raise LiteRtError(
            Status.INVALID_ARGUMENT, f'{SOC} is {attribute}, expected a text such as "EMU8"'
        )
    return get_soc_model(attribute.data)


def set_soc(module: ModuleOp, soc: SocModel) -> None:
    """Makes it the module's."""
    module.attributes[SOC] = StringAttr(soc.name)
