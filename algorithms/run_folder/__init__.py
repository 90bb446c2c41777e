"""The run folder and the process that writes it: checkpoints, the record, the display, signals.

Nothing here knows an algorithm, and only `checkpoint` imports torch.
"""
