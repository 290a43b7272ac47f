"""Packs Python code as a shared library for programs that know nothing about Python."""
