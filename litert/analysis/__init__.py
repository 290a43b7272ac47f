"""Analyses of a model: which op computes wrong results, which ops an NPU can run, and what they cost."""
