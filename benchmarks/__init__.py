"""Benchmarks, one claim in each file. With this file, Python ignores the package `benchmarks` of xdsl."""
