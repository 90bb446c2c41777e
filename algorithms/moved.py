"""Where the modules and names of version 0.1.0 are now; old imports still work and say so."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

_HOMES = {
    "collapse.cells": "comparison.grid_runs",
    "collapse.comparison": "comparison",
    "collapse.comparison.cells": "comparison.jobs",
    "collapse.comparison.columns": "comparison.variants",
    "collapse.comparison.compare": "comparison.compare",
    "collapse.comparison.controls": "comparison.controls",
    "collapse.comparison.plan": "comparison.plan",
    "collapse.comparison.readings": "comparison.readings",
    "collapse.comparison.result": "comparison.result",
    "collapse.comparison.tuning": "comparison.tuning",
    "collapse.grid": "comparison.grid",
    "collapse.grid_files": "run_folder.files",
    "commands.json_file": "run_folder.files",
    "commands.next_steps": "commands.run_end",
    "commands.probe_pictures": "diagnostics.probe_pictures",
    "commands.termination": "run_folder.stopping",
    "core.blind_pairs": "core.batch_metrics",
    "core.clip_by_probability": "core.ratio_metrics",
    "core.diagnostics": "core.batch_metrics core.ratio_metrics",
    "core.surrogates": "core.losses",
    "core.value_loss": "core.losses",
    "playing.conversation": "playing.uci.conversation",
    "playing.engine": "playing.uci.engine",
    "playing.ladder": "evaluation.ladder",
    "playing.load_policy": "evaluation.load_policy",
    "playing.move_quality": "evaluation.move_quality",
    "playing.options": "playing.uci.options",
    "playing.protocol": "playing.uci.protocol",
    "playing.request": "playing.requests",
    "playing.strength": "evaluation.strength",
    "playing.threads": "evaluation.load_policy",
    "pretraining.pgn_lines": "pretraining.pgn_text",
    "pretraining.pgn_stream": "pretraining.pgn_text",
    "pretraining.stream": "pretraining.minibatches",
    "pretraining.targets": "pretraining.minibatches",
    "training.amounts": "training.record",
    "training.boards": "rollouts.state",
    "training.checkpoint": "run_folder.checkpoint",
    "training.choices": "commands.choices",
    "training.combinations": "config.compatibility",
    "training.config": "config.run",
    "training.config_file": "config.files",
    "training.config_sections": "config.sections",
    "training.console": "run_folder.console",
    "training.device": "networks.device",
    "training.disk": "run_folder.files",
    "training.dynamic_sampling": "rollouts.dynamic_sampling",
    "training.entropy_probe": "diagnostics.entropy_prediction",
    "training.evaluation": "evaluation.heldout",
    "training.frozen": "networks.build",
    "training.games": "rollouts.games",
    "training.gradient_share": "diagnostics.gradient_shares",
    "training.initial_weights": "networks.weights",
    "training.invariants": "training.preflight.step0",
    "training.machine": "run_folder.environment",
    "training.match_play": "evaluation.match_play",
    "training.minibatches": "updates.training_batch",
    "training.named_runs": "config.names",
    "training.own_parts": "config.custom",
    "training.own_policy": "networks.custom",
    "training.planes": "rollouts.planes",
    "training.plies": "rollouts.ply",
    "training.policy": "networks.build networks.policy_net networks.residual networks.settings",
    "training.policy_player": "evaluation.policy_player",
    "training.preflight.rollout": "training.preflight.first_rollout",
    "training.probe_build": "diagnostics.probe_build",
    "training.probe_metrics": "diagnostics.probe_metrics",
    "training.probe_optimum": "diagnostics.probe_optimum",
    "training.probe_policy": "diagnostics.probe_policy",
    "training.probe_record": "diagnostics.probe_record",
    "training.probe_set": "diagnostics.probe_set",
    "training.progress": "run_folder.progress",
    "training.rollout": "rollouts.positions",
    "training.rows": "training.record",
    "training.run_evaluation": "evaluation.run_evaluation",
    "training.run_log": "run_folder.log run_folder.trackers run_folder.trackers run_folder.trackers",
    "training.run_report": "training.result",
    "training.sb3": "integrations.sb3.session",
    "training.sb3_boards": "integrations.sb3.boards",
    "training.sb3_policy": "integrations.sb3.policy",
    "training.sb3_record": "integrations.sb3.record",
    "training.sb3_settings": "integrations.sb3.settings",
    "training.seen_positions": "rollouts.seen_positions",
    "training.step_guard": "updates.nonfinite",
    "training.stopping": "run_folder.stopping",
    "training.strong": "config.names",
    "training.targets": "updates.targets",
    "training.update": "updates.update",
    "training.update_diagnostics": "diagnostics.update_diagnostics",
}

MOVED = {
    f"algorithms.{old}": tuple(f"algorithms.{new}" for new in homes.split())
    for old, homes in _HOMES.items()
}


class OldAlgorithmsPaths:
    """Finds the old names of this package, for `sys.meta_path`; imports nothing before one is asked for."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module that hands on what its homes have; None where the name is not an old one."""
        if fullname not in MOVED:
            return None
        from chess_env.moved import OldPaths

        return OldPaths(MOVED, {}).find_spec(fullname, path, target)
