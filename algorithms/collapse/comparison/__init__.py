"""Algorithms side by side: a grid of ordinary runs, and what may be claimed from it."""
