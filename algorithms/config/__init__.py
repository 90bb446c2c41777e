"""The settings of a run: what they are, what goes together, how they are written to JSON and named.

The room describes runs and builds none of their parts.
"""
