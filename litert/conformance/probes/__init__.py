"""Models that a vendor's outputs are compared on; each module has them as `PROBES`."""
