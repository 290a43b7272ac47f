"""The stamp: which vendor and SoC model a compiled file is for, as stock LiteRT writes it.

250 bytes under the metadata key `LiteRtStamp`: the manufacturer from byte 0, the SoC model from byte 125, each
padded with zeros (LiteRT: `litert/core/build_stamp.cc`).
"""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Model

STAMP_KEY = "LiteRtStamp"
FIELD_SIZE = 125
"""Bytes of one name with the zero that ends it; stock takes names of at most 123."""

UNSAID_SOC_MODEL = "ExampleSocModel"
"""What stock's `apply_plugin_main` compiles for, and writes, where `--soc_model` is not given."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Whom a compiled file is for.

    Attributes:
      soc_manufacturer: of the NPU.
      soc_model: the NPU's name there.
    """

    soc_manufacturer: str
    soc_model: str

    def to_bytes(self) -> bytes:
        """The stamp's 250 bytes.

        Raises:
          LiteRtError: INVALID_ARGUMENT, for a name that does not fit.
        """
        return b"".join(_field(name) for name in (self.soc_manufacturer, self.soc_model))


def read_stamp(model: Model, where: str = "") -> Stamp | None:
    """A model's stamp; None where no NPU's compiler made it. INVALID_FLATBUFFER for a stamp that is none."""
    blob = model.find_metadata(STAMP_KEY)
    if blob is None:
        return None
    data = bytes(blob.view[: 2 * FIELD_SIZE + 1])
    try:
        if len(data) != 2 * FIELD_SIZE:
            raise ValueError(f"a stamp of {blob.size} bytes, not {2 * FIELD_SIZE}")
        fields = data[:FIELD_SIZE], data[FIELD_SIZE:]
        manufacturer, soc_model = (field.split(b"\0", 1)[0].decode() for field in fields)
        if not manufacturer:
            raise ValueError("a stamp without a manufacturer")
    except ValueError as error:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER, str(error), where, "Compile the model again."
        ) from None
    return Stamp(manufacturer, soc_model)


def set_stamp(model: Model, stamp: Stamp) -> None:
    """Puts a stamp on a model, in place of one that it had. Raises as `Stamp.to_bytes`."""
    model.set_metadata(STAMP_KEY, Blob(stamp.to_bytes()))


def _field(name: str) -> bytes:
    data = name.encode(errors="surrogatepass")
    if len(data) > FIELD_SIZE - 2 or not name.isprintable():
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the name {name[:150]!r} does not fit a stamp",
            hint=f"A manufacturer or SoC model has at most {FIELD_SIZE - 2} printable bytes.",
        )
    return data.ljust(FIELD_SIZE, b"\0")
