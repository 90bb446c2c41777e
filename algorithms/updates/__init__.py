"""From a rollout to an optimizer step: targets, minibatches, one loss, the step.

Nothing here samples, writes files or knows a preset.
"""
