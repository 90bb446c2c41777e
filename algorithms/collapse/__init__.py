"""Collapse on purpose: causes that can be switched on, and the doctor that recognises them."""
