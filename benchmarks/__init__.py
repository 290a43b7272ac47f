"""Benchmarks: one claim a file. A package proper, since xdsl installs another of this name."""
