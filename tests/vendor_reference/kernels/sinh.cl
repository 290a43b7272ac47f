__kernel void hyperbolic_sine(const __global float* x, __global float* y) {
  y[get_global_id(0)] = sinh(x[get_global_id(0)]);
}
