"""The reference vendor's options, as `litert-npu layer` has them: flags of its own."""

from vendor_reference.compiler.reference_options import OPTIONS, check_options

__all__ = ["OPTIONS", "check_options"]
