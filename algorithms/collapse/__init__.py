"""Collapse on purpose: its causes on switches, the doctor that recognises them, and comparisons."""
