"""The reference compiler's passes on text; its compiler is imported when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence


def transform_ir(text: bytes, name: str, passes: str, soc_model: str) -> str:
    """See `vendor_reference.compiler.opt.transform_text`."""
    from vendor_reference.compiler.opt import transform_text

    return transform_text(text, name, passes, soc_model)


def list_ir_passes() -> Sequence[tuple[str, str]]:
    """See `vendor_reference.compiler.opt.list_passes`."""
    from vendor_reference.compiler.opt import list_passes

    return list_passes()
