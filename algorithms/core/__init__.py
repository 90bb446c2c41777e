"""Pure tensor functions: no game, no files, no logging."""
