"""Whether the matches of `chess-lab eval` say what games under a client of others say."""
