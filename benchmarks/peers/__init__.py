"""This project beside what one would pick instead: each peer in an environment of its own, all in one run."""
