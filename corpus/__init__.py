"""Real networks, and what stock LiteRT and a planner see in them: for tests, benchmarks and the demo."""
