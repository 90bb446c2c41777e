"""What an update does, looked at from outside, and the fixed probe positions.

Nothing here changes a run, its random streams included.
"""
