"""Null: the smallest vendor, and a template for new vendors. Its NPU copies input 0 to output 0.

`compiler_plugin.py` compiles partitions to byte code, and `dispatch.py` runs the byte code. The two modules share
only `byte_code.py`.
"""
