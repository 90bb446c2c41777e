"""The commands of `chess-lab`, one module each, imported when it runs."""
