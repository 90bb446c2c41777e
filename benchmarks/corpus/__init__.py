"""Runs with a known fault, or with none, to judge any doctor of training logs by: docs/corpus.md."""
