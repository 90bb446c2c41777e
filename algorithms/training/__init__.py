"""Everything that runs: policy, rollout, update, evaluation, trainer."""
