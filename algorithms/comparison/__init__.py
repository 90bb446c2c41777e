"""Grids of runs: variants and seeds, negative controls, tuning, and what may be claimed of them."""
