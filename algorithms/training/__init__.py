"""The training loop: the trainer, the parts of a run, its result; and `preflight`, which lets it start or not."""
