"""A trained policy as a player, with one batched forward pass for all its boards, and its matches during training."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from algorithms.config.run import MatchConfig
from algorithms.networks.policy_net import PolicyNet
from algorithms.reports.elo import count_pairs, judge_pairs
from chess_env.games.players import make_player
from chess_env.matches.arena import MATCH_PLIES, play_match
from chess_env.move_facts import facts_asked, move_facts_batch
from chess_env.observation import NUM_PLANES, encode_batch
from chess_env.positions.start_positions import StartPositions, make_start_positions
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.rules.packed import Positions
from chess_env.rules.rules import legal_actions_batch

GREEDY = 0.0
"""The temperature of a player that always makes its most probable move."""

ROWS = 8
MORE_ROWS = (32, 16)
"""Boards in one forward pass; the last one is padded. The rounding of a convolution can depend on this
number, and a game must not depend on how many others run beside it. So the larger ones are only used where
they give the same bits, which is tried when a player is made. Measured on one core of a CPU (where all
numbers from 4 on gave the same bits): 1 board costs 1.3 ms, 8 boards 0.57 ms each, 32 boards 0.44 ms each,
128 boards 0.55 ms each."""


class PolicyPlayer:
    """Plays a policy's most probable move, or draws from the policy at a temperature.

    Its inputs are those of training: repetitions and the rule-50 clock are in its planes, and it gets the
    facts of its moves where it reads them.

    Args:
        policy: in evaluation mode; stays on its device.
        temperature: `GREEDY` (0), or that of the softmax from which moves are drawn.
        label: name of the policy; the temperature is added to it.

    Attributes:
        reads_move_facts: which the policy reads; an arena then asks by `choose_with_facts`.

    Raises:
        ValueError: the temperature is negative or not finite.
    """

    def __init__(self, policy: PolicyNet, *, temperature: float, label: str) -> None:
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(
                f"temperature is {temperature}: expected a temperature of at least 0 (0 plays the most "
                "probable move)"
            )
        self._policy, self._temperature = policy.eval(), temperature
        self.reads_move_facts = policy.reads_move_facts
        self._device = next(policy.parameters()).device
        self._sizes = [*self._sizes_of_equal_bits(), ROWS]
        how = "greedy" if temperature == GREEDY else f"temperature {temperature:g}"
        self.name = f"{label} ({how})"

    def choose(
        self, positions: Positions, rngs: Sequence[np.random.Generator]
    ) -> NDArray[np.int64]:
        """int64 [N], as `choose_with_history` where no position has occurred before."""
        return self.choose_with_history(positions, np.zeros(len(positions), np.int64), rngs)

    def choose_with_history(
        self,
        positions: Positions,
        repetitions: NDArray[np.integer],
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """int64 [N]; greedy ties go to the lowest action id, otherwise one `random` draw per board.

        A policy that reads move facts is told that no position after a move has occurred before: that is
        not in the repetitions.
        """
        return self._choose(positions, repetitions, None, rngs)

    def choose_with_facts(
        self,
        positions: Positions,
        repetitions: NDArray[np.integer],
        move_facts: NDArray[np.uint8],
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """int64 [N], as `choose_with_history`; `move_facts` uint8 [N, L, F] are those of each game's moves."""
        # On as many slots as `_pass` works on (see there).
        facts = np.zeros((len(move_facts), MAX_LEGAL, move_facts.shape[2]), np.uint8)
        facts[:, : move_facts.shape[1]] = move_facts
        return self._choose(positions, repetitions, facts, rngs)

    def _choose(
        self,
        positions: Positions,
        repetitions: NDArray[np.integer],
        move_facts: NDArray[np.uint8] | None,
        rngs: Sequence[np.random.Generator],
    ) -> NDArray[np.int64]:
        """int64 [N]; move facts that are read and not given are computed as of games without a past."""
        legal_ids, _ = legal_actions_batch(positions)
        if self.reads_move_facts and move_facts is None:
            move_facts = move_facts_batch(positions, legal_ids, asked=self.reads_move_facts)
        planes = encode_batch(positions, repetitions.astype(np.uint8))
        probs = self._probs(planes, legal_ids, move_facts)
        if self._temperature == GREEDY:
            slots = probs.argmax(axis=1)
        else:
            below = np.cumsum(probs, axis=1, dtype=np.float64)
            uniforms = np.array([rng.random() for rng in rngs])
            # float64 sums of float32 probabilities: the total is 1 but for rounding.
            slots = (below <= uniforms[:, None] * below[:, -1:]).sum(axis=1)
        return legal_ids[np.arange(len(slots)), slots].astype(np.int64)

    def close(self) -> None:
        """Does nothing: nothing is held."""

    def _probs(
        self,
        planes: NDArray[np.uint8],
        legal_ids: NDArray[np.int16],
        move_facts: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.float32]:
        """float32 [N, 218]: the policy's probabilities; 0 on padding. Greedy ones are at temperature 1.

        Raises:
            ValueError: one is not finite.
        """
        count = len(planes)
        rows = np.arange(count + -count % ROWS)
        rows[count:] = 0
        found, start = [], 0
        while start < len(rows):
            size = next(size for size in self._sizes if size <= len(rows) - start)
            part = rows[start : start + size]
            facts = None if move_facts is None else move_facts[part]
            found.append(self._pass(planes[part], legal_ids[part], facts))
            start += size
        probs = np.concatenate(found)[:count]
        if not np.isfinite(probs).all():
            raise ValueError(
                f"{self.name} gives probabilities that are not finite: use another checkpoint"
            )
        return probs

    @torch.inference_mode()
    def _pass(
        self,
        planes: NDArray[np.uint8],
        legal_ids: NDArray[np.int16],
        move_facts: NDArray[np.uint8] | None,
    ) -> NDArray[np.float32]:
        """float32 [rows, 218], one forward pass."""
        obs, ids = (torch.from_numpy(each).to(self._device) for each in (planes, legal_ids))
        temperature = self._temperature or 1.0
        if move_facts is None:
            dist = self._policy.outputs(obs, ids, temperature, None).dist
            return dist.probs.float().cpu().numpy()
        # A network may leave padding out of its products, and the rounding of a product can depend on how many
        # rows it has: with a move in every slot that is the same number whatever the other boards are.
        facts, legal = torch.from_numpy(move_facts).to(self._device), ids >= 0
        everywhere = torch.where(legal, ids, ids[:, :1])
        logits, _ = self._policy.logits_and_values(obs, everywhere, facts)
        return self._policy.dist_of(logits, legal, temperature).probs.float().cpu().numpy()

    def _sizes_of_equal_bits(self) -> list[int]:
        """Those of `MORE_ROWS` that give the same bits as `ROWS` at a time, on boards of random planes and facts."""
        rng = np.random.default_rng(0)
        most = max(MORE_ROWS)
        planes = rng.integers(0, 2, (most, NUM_PLANES, 8, 8), np.uint8)
        legal_ids = np.tile(np.arange(MAX_LEGAL, dtype=np.int16), (most, 1))
        facts: NDArray[np.uint8] | None = None
        if self.reads_move_facts:
            highest = np.array([fact.high for fact in facts_asked(self.reads_move_facts)], np.uint8)
            facts = rng.integers(0, highest + 1, (most, MAX_LEGAL, len(highest)), np.uint8)

        def in_passes_of(size: int) -> NDArray[np.float32]:
            found = []
            for at in range(0, most, size):
                part = slice(at, at + size)
                known = None if facts is None else facts[part]
                found.append(self._pass(planes[part], legal_ids[part], known))
            return np.concatenate(found)

        few = in_passes_of(ROWS)
        return [size for size in MORE_ROWS if np.array_equal(in_passes_of(size), few)]


class MatchPlay:
    """Short matches during training: the same games against the same opponents each time.

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
