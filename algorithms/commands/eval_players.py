"""The players of `chess-lab eval`: the policy that is evaluated, and others by their names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chess_env.games.players import Player

POLICY = "policy:"
"""Beginning of a name that is a checkpoint."""


class EvalPlayers:
    """The policy that is evaluated, and other players as they are first needed.

    Args:
        options: of the command.
        temperature: at which policies draw their moves; 0 is greedy.

    Raises:
        ValueError: the checkpoint cannot be read, or the temperature is none.
    """

    def __init__(self, options: argparse.Namespace, temperature: float) -> None:
        import torch

        from algorithms.config.foreign import Trust
        from algorithms.evaluation.load_policy import threads_of
        from algorithms.networks.build import choose_device

        torch.set_num_threads(threads_of(options.num_threads))
        self._temperature = temperature
        self._device = choose_device(options.device)
        self._trust = Trust(options.trust)
        self.evaluated = self._policy(options.checkpoint)
        self._others: dict[str, Player] = {}

    def named(self, name: str) -> Player:
        """The player of that name, made once."""
        if name not in self._others:
            self._others[name] = self._made(name)
        return self._others[name]

    def _made(self, name: str) -> Player:
        from algorithms.evaluation.limited_stockfish import is_limited_stockfish, limited_stockfish
        from chess_env.games.players import make_player

        if name.startswith(POLICY):
            return self._policy(name.removeprefix(POLICY))
        return limited_stockfish(name) if is_limited_stockfish(name) else make_player(name)

    def engine(self, command: str, limit: str) -> Player:
        """A UCI engine by its command line, started once."""
        from algorithms.evaluation.uci_player import UciPlayer

        if command not in self._others:
            self._others[command] = UciPlayer(command, limit)
        return self._others[command]

    def close(self) -> None:
        """Ends the engines."""
        for player in self._others.values():
            player.close()

    def _policy(self, source: str) -> Player:
        from algorithms.evaluation.load_policy import load_policy
        from algorithms.evaluation.policy_player import PolicyPlayer

        policy = load_policy(source, self._trust).to(self._device)
        return PolicyPlayer(policy, temperature=self._temperature, label=source)
