"""Mirror: the reference vendor's compiler under a name that is installed nowhere."""

from __future__ import annotations

from vendor_reference.compiler.plugin import ReferencePluginFactory


class MirrorPluginFactory(ReferencePluginFactory):
    """Who Mirror is."""

    soc_manufacturer = "Mirror"


PLUGIN = MirrorPluginFactory()
