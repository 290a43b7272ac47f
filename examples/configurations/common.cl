// Helpers that several layers have in front of their own source.
inline float clip(float value, float low, float high) { return fmin(fmax(value, low), high); }
