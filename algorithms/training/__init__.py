"""The training loop: the trainer, the parts of a run, its result; and `preflight`, the checks before it starts."""
