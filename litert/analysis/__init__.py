"""Answers about a model: which op is wrong, which ops an NPU takes, and what they cost."""
