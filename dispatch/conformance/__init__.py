"""Checks of any vendor's dispatch table against the contract in `litert_npu/dispatch.h`, at the C interface."""
