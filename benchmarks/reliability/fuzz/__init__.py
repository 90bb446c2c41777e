"""Damaged inputs for everything that reads: python -m benchmarks.reliability.fuzz --json PATH."""
