"""Measurements of what an update does, and the fixed probe positions.

Nothing here changes a run, its random streams included.
"""
