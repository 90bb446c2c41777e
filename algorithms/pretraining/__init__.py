"""Supervised pretraining: labelled positions on disk, targets over the legal moves, and the loop."""
