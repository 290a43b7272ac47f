"""Implements LiteRT's C dispatch interface by calls of a Python dispatch table."""
