"""How far the scores that pay rewards agree with those of a deep search, in decided positions above all."""
