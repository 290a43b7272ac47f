"""Mirror: the reference vendor's driver, under the name of a vendor that is not installed."""

from __future__ import annotations

from vendor_reference.dispatch import ReferenceDispatch


class MirrorDispatch(ReferenceDispatch):
    """Mirror's dispatch table."""

    vendor_id = "Mirror"


DISPATCH = MirrorDispatch()
