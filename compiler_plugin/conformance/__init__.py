"""Checks of any vendor's compiler plugin against the contract in `litert_npu/compiler_plugin.h`, at the C interface."""
