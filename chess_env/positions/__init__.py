"""Start positions: specs and sources, openings, phases, files; and the held-out table, from which no source starts."""
