"""What the project promises when something goes wrong, counted: python -m benchmarks.reliability.flips --json PATH."""
