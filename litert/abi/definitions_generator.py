"""Writes `definitions.py`, the headers in cffi's compiled form, so that no program parses C at run time.

python -m litert.abi.definitions_generator
"""

from __future__ import annotations

import os

from litert.abi.headers import declarations

# Declarations that are not in a header. cffi cannot make a callback that takes a struct with bit fields by value.
# The struct of words replaces such a struct, because C passes both in the same way. The functions are in
# `compiler_plugin/native/fast_getters.py`.
_OURS = """
typedef struct { uint32_t words[18]; } LiteRtRankedTensorTypeByValue;
LiteRtStatus litert_npu_get_subgraph_op(LiteRtSubgraph, LiteRtParamIndex, LiteRtOp*);
LiteRtStatus litert_npu_get_op_code(LiteRtOp, LiteRtOpCode*);
LiteRtStatus litert_npu_get_num_op_inputs(LiteRtOp, LiteRtParamIndex*);
LiteRtStatus litert_npu_get_num_op_outputs(LiteRtOp, LiteRtParamIndex*);
LiteRtStatus litert_npu_get_tensor_name(LiteRtTensor, const char**);
LiteRtStatus litert_npu_get_tensor_weights(LiteRtTensor, LiteRtWeights*);
LiteRtStatus litert_npu_get_quantization_type_id(LiteRtTensor, LiteRtQuantizationTypeId*);
LiteRtStatus litert_npu_get_ranked_tensor_type(LiteRtTensor, LiteRtRankedTensorType*);
"""

TARGET = os.path.join(os.path.dirname(os.path.abspath(__file__)), "definitions.py")


def generate(path: str) -> None:
    """Writes the module with cffi's definitions to `path`."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(declarations() + _OURS)
    ffi.set_source("litert.abi.definitions", None)
    ffi.emit_python_code(path)


if __name__ == "__main__":
    generate(TARGET)
