"""Trained policies that play: against opponents and in a GUI."""
