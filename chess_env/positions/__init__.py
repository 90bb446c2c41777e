"""Start positions: specs, sources, openings, phases, files; the held-out table, where none starts; obvious moves."""
