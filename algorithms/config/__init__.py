"""The settings of a run: their meaning, which go together, their JSON and their names.

The room describes runs and builds none of their parts.
"""
