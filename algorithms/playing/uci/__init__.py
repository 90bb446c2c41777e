"""The policy as a chess engine: the UCI protocol on standard input and output."""
