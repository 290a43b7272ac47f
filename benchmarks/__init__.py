"""Benchmarks: each file measures one claim. A package proper, since xdsl installs another of this name."""
