"""Matches between players: openings, game pairs in lockstep, results with intervals."""
