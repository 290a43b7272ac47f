"""Analyses of a model: the op that computes wrong results, the ops that an NPU takes, and their cost."""
