"""Provides real networks, and stock LiteRT's results for them, for tests, benchmarks and the demo."""
