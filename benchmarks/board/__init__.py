"""How long the page of `chess-lab board` takes: python -m benchmarks.board --json PATH."""
