"""Models on which a vendor's outputs are compared; each module declares its models as `PROBES`."""
