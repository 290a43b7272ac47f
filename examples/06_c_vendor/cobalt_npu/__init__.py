"""Cobalt: a compiler plugin and a dispatch library for LiteRT, in C."""
