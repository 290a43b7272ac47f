// Hyperbolic sine, element by element. The kernel needs no description: it has the op's name, its arguments are the op's
// inputs and then the op's outputs, and there is one work item for each element of the output.

__kernel void Sinh(const __global float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = sinh(x[i]);
}
