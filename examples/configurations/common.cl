// Functions for several layers, whose configurations list this file before their own source file.
inline float clip(float value, float low, float high) { return fmin(fmax(value, low), high); }
