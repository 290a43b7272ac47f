"""Probes, which are models for comparing a vendor's outputs; each module declares its probes as `PROBES`."""
