"""Null: the smallest vendor, and the template for yours. Its NPU copies input 0 to output 0.

`compiler_plugin.py` turns partitions into byte code, `dispatch.py` runs it; they meet in `byte_code.py` alone.
"""
