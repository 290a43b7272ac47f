"""Checks of any compiler plugin against the contract in `litert_npu/compiler_plugin.h`, at the C interface."""
