/* Non-maximum suppression: keeps the box with the highest score among boxes that overlap. There is a single work item. */
#define ANCHORS INPUT1_DIMS[1]
#define SIDE 128.0f /* width and height of the network's picture, in pixels */

/* Returns ymin, xmin, ymax, xmax of a box, from 0 to 1. Regressors begin with x, y of the centre, width and height. */
float4 box_of(__global const float* regressors, __global const float* anchors, int i) {
  const float2 center = vload2(0, regressors + 16 * i) / SIDE + vload2(i, anchors);
  const float2 reach = vload2(0, regressors + 16 * i + 2) / SIDE / 2;
  return (float4)((center - reach).yx, (center + reach).yx);
}

float overlap(float4 a, float4 b) {
  const float2 sides = max(min(a.zw, b.zw) - max(a.xy, b.xy), 0.0f);
  const float common = sides.x * sides.y;
  return common / ((a.z - a.x) * (a.w - a.y) + (b.z - b.x) * (b.w - b.y) - common);
}

__kernel void DetectFaces(
    __global const float* regressors, __global const float* logits, __global const float* anchors,
    __global float* boxes, __global float* kept, __global uint* boxes_shape, __global uint* kept_shape) {
  uint number = 0;
  while (number < MOST_FACES) {
    int best = -1;
    float4 best_box = 0;
    for (int i = 0; i < ANCHORS; ++i) {
      if (logits[i] < LEAST_LOGIT || (best >= 0 && logits[i] <= logits[best])) continue;
      const float4 box = box_of(regressors, anchors, i);
      bool is_free = true;
      for (uint k = 0; k < number && is_free; ++k) is_free = overlap(box, vload4(k, boxes)) <= MOST_OVERLAP;
      if (is_free) {
        best = i;
        best_box = box;
      }
    }
    if (best < 0) break;
    vstore4(best_box, number, boxes);
    kept[number++] = logits[best];
  }
  boxes_shape[0] = kept_shape[0] = number;
  boxes_shape[1] = 4;
}
