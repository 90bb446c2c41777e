"""What is measured: `speed/`, `forms/` and `peers/` in minutes, `learning/` in hours; `records/` writes `results/`.

Each is a module to run from the root of the clone: python -m benchmarks.speed.vector_env --json PATH.
"""
