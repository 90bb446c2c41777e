"""Games on N boards: the moves, their scores and rewards, the opponent, and what the caller is told."""
