"""Packs Python code into a shared library that programs without Python can load."""
