"""Nickel: a compiler plugin and a dispatch table for LiteRT. The entry points in `pyproject.toml` name them."""
