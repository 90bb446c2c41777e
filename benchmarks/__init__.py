"""What is measured: `speed/` in minutes, `learning/` in hours; `records/` writes the files in `results/`.

Each is a module to run from the root of the clone: python -m benchmarks.speed.vector_env --json PATH.
"""
