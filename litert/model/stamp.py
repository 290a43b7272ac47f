"""The stamp of a compiled file, which names the vendor and the NPU for which the file was compiled.

The stamp has stock LiteRT's format: 250 bytes under the metadata key `LiteRtStamp`. The manufacturer's name starts
at byte 0, and the SoC model's name at byte 125; zeros follow each name (LiteRT: `litert/core/build_stamp.cc`).
"""

from __future__ import annotations

from dataclasses import dataclass

from litert.core.counts import count_text
from litert.core.errors import LiteRtError
from litert.core.status import Status
from litert.model.blob import Blob
from litert.model.graph import Model

STAMP_KEY = "LiteRtStamp"
FIELD_SIZE = 125
"""Number of bytes for a name and its final zero; stock LiteRT accepts names of at most 123 characters."""

UNSAID_SOC_MODEL = "ExampleSocModel"
"""Default value of `--soc_model` in stock LiteRT's `apply_plugin_main`."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The vendor and the NPU for which a file is compiled.

    Attributes:
      soc_manufacturer: Manufacturer of the NPU.
      soc_model: Name that the manufacturer gave to the NPU.
    """

    soc_manufacturer: str
    soc_model: str

    def to_bytes(self) -> bytes:
        """Returns the stamp's 250 bytes.

        Raises:
          LiteRtError: INVALID_ARGUMENT, if a name is too long, or contains unprintable characters.
        """
        return b"".join(_field(name) for name in (self.soc_manufacturer, self.soc_model))


def read_stamp(model: Model, where: str = "") -> Stamp | None:
    """Returns a model's stamp; None if the model was not compiled for an NPU.

    Raises INVALID_FLATBUFFER if the stamp is invalid.
    """
    blob = model.find_metadata(STAMP_KEY)
    if blob is None:
        return None
    data = bytes(blob.view[: 2 * FIELD_SIZE + 1])
    try:
        if len(data) != 2 * FIELD_SIZE:
            raise ValueError(f"the stamp has {count_text(blob.size, 'byte')}, not {2 * FIELD_SIZE}")
        fields = data[:FIELD_SIZE], data[FIELD_SIZE:]
        manufacturer, soc_model = (field.split(b"\0", 1)[0].decode() for field in fields)
        if not manufacturer:
            raise ValueError("the stamp has no manufacturer")
    except ValueError as error:
        raise LiteRtError(
            Status.INVALID_FLATBUFFER,
            f"the stamp in the model, which names the vendor and the SoC model, is damaged: {error}",
            where,
            "Compile the model again.",
        ) from None
    return Stamp(manufacturer, soc_model)


def set_stamp(model: Model, stamp: Stamp) -> None:
    """Stores a stamp in a model; an old stamp is replaced. Raises the same errors as `Stamp.to_bytes`."""
    model.set_metadata(STAMP_KEY, Blob(stamp.to_bytes()))


def _field(name: str) -> bytes:
    data = name.encode(errors="surrogatepass")
    if len(data) > FIELD_SIZE - 2 or not name.isprintable():
        raise LiteRtError(
            Status.INVALID_ARGUMENT,
            f"the name {name[:150]!r} is too long, or contains characters that cannot be printed",
            hint="The name of a manufacturer or SoC model may have at most "
            f"{FIELD_SIZE - 2} bytes, all printable.",
        )
    return data.ljust(FIELD_SIZE, b"\0")
