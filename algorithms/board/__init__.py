"""A page in the browser: play against policies, and see what they make of a position."""
