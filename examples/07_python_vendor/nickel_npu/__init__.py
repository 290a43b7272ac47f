"""Nickel: a compiler plugin and a dispatch table for LiteRT, named by the entry points in `pyproject.toml`."""
