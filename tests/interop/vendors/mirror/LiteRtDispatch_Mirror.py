"""Mirror: the reference vendor's driver under a name that is installed nowhere."""

from __future__ import annotations

from vendor_reference.dispatch import ReferenceDispatch


class MirrorDispatch(ReferenceDispatch):
    """Mirror's table."""

    vendor_id = "Mirror"


DISPATCH = MirrorDispatch()
