"""Short matches during training: the same games against the same opponents each time."""

from __future__ import annotations

import math
import time
from functools import cached_property

from algorithms.config.run import MatchConfig
from algorithms.evaluation.policy_player import GREEDY, PolicyPlayer
from algorithms.networks.policy_net import PolicyNet
from algorithms.reports.elo import count_pairs, judge_pairs
from chess_env.games.players import make_player
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.positions.start_positions import StartPositions, make_start_positions


class MatchPlay:
    """Plays the same openings against the same opponents each time, so that only the policy differs.

    The games draw nothing from the run's own random generators: a run learns the same with matches and
    without.

    Args:
        config: opponents and number of games.
        seed: of openings and opponents.

    Raises:
        ValueError: an opponent is unknown.
    """

    def __init__(self, config: MatchConfig, seed: int) -> None:
        self._pairs, self._seed = config.games // 2, seed
        self._opponents = {name: make_player(name) for name in config.opponents}

    @cached_property
    def _openings(self) -> StartPositions:
        """Where games start; made for the first match, since most runs play none."""
        return make_start_positions("openings")

    def play(self, policy: PolicyNet) -> dict[str, float]:
        """`match/<opponent>/...` of the policy's most probable moves; empty without opponents."""
        if not self._opponents:
            return {}
        began = time.monotonic()
        metrics: dict[str, float] = {}
        player = PolicyPlayer(policy, temperature=GREEDY, label="policy")
        for name, opponent in self._opponents.items():
            match = play_match(
                player,
                opponent,
                openings=self._openings,
                pairs=self._pairs,
                seed=self._seed,
                max_plies=MATCH_PLIES,
            )
            counts, judged = match.counts(), judge_pairs(count_pairs(match.pair_points()))
            converted = counts["conversion"]
            metrics |= {
                f"match/{name}/score": judged.score,
                f"match/{name}/score_low": judged.interval.low,
                f"match/{name}/score_high": judged.interval.high,
                f"match/{name}/losses": counts["losses"] / counts["games"],
                f"match/{name}/conversion": math.nan if converted is None else converted,
            }
        return metrics | {"time/match_s": time.monotonic() - began}

    def close(self) -> None:
        """Frees what the opponents hold."""
        for opponent in self._opponents.values():
            opponent.close()
