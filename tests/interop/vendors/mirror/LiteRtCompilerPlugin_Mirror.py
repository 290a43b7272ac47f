"""Mirror: the reference vendor's compiler plugin, under the name of a vendor that is not installed."""

from __future__ import annotations

from vendor_reference.compiler.plugin import ReferencePluginFactory


class MirrorPluginFactory(ReferencePluginFactory):
    """Mirror's name and plugin."""

    soc_manufacturer = "Mirror"


PLUGIN = MirrorPluginFactory()
