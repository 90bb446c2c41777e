"""Chess for two agents by PettingZoo's interface (the extra `pettingzoo`): `player_0` has White.

A game of random moves::

    from chess_env.pettingzoo import ChessAEC

    env = ChessAEC(evaluator="builtin")
    env.reset(seed=0)
    for agent in env.agent_iter():
        observation, reward, terminated, truncated, info = env.last()
        over = terminated or truncated
        env.step(None if over else env.action_space(agent).sample(observation["action_mask"]))
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv  # type: ignore[import-untyped]

from chess_env.env import ChessSelfPlayEnv
from chess_env.moves import NUM_ACTIONS

WHITE, BLACK = "player_0", "player_1"


class ChessAEC(AECEnv):
    """`ChessSelfPlayEnv` for two agents.

    An observation is a dictionary: `observation`, uint8 `[C, 8, 8]`, the board when the agent was last to move, from
    its own side, and `action_mask`, int8 `[1858]`, all 0 where it is the other's turn. Rewards sum to 0: the agent
    that moves gets what `ChessSelfPlay-v0` pays for the move, the other one the opposite; an illegal move costs its
    agent 1 and pays nobody. Both agents end together, by the rules (`terminated`) or at `max_plies` (`truncated`).

    Args:
        render_mode: None, "human" (the board as text after every move), "ansi", "rgb_array" or "svg".
        arguments: as of `ChessSelfPlayEnv`, without `opponent`: both sides are agents.

    Raises:
        ValueError: an argument is none, or has a value that it cannot have.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012
        "name": "chess_selfplay_v0",
        "render_modes": ["human", *ChessSelfPlayEnv.metadata["render_modes"]],
        "render_fps": 2,
        "is_parallelizable": False,
    }

    def __init__(self, *, render_mode: str | None = None, **arguments: Any) -> None:
        super().__init__()
        if arguments.get("opponent") is not None:
            raise ValueError(
                "both sides are agents here: leave `opponent` out, or use ChessSelfPlay-v0"
            )
        self.render_mode = render_mode
        inner = "ansi" if render_mode == "human" else render_mode
        self._env = ChessSelfPlayEnv(render_mode=inner, **arguments)
        self.possible_agents = [WHITE, BLACK]
        self.agents: list[str] = []
        observation = spaces.Dict(
            {
                "observation": self._env.observation_space,
                "action_mask": spaces.Box(0, 1, (NUM_ACTIONS,), np.int8),
            }
        )
        self._observation_spaces = dict.fromkeys(self.possible_agents, observation)
        self._action_spaces = {
            agent: spaces.Discrete(NUM_ACTIONS) for agent in self.possible_agents
        }
        self._seen: dict[str, NDArray[np.uint8]] = {}

    def observation_space(self, agent: str) -> spaces.Dict:
        """The space of an agent's observations, one object for ever."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """The space of an agent's actions, one object for ever."""
        return self._action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins a game; the seed and the option `fen` are those of `ChessSelfPlayEnv.reset`, others are not read.

        Raises:
            ValueError: as there; the old game goes on.
        """
        known = {"fen": options["fen"]} if options and "fen" in options else None
        board, info = self._env.reset(seed=seed, options=known)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        # The one that moves second sees the same board until its turn comes.
        self._seen = dict.fromkeys(self.agents, board)
        self._turn(board, info)

    def step(self, action: int | None) -> None:
        """The move of `agent_selection`; None where its game is over.

        Raises:
            ValueError: not an action id, or an illegal one under `illegal_action="raise"`; nothing changed.
        """
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if action is None:
            raise ValueError(f"{agent} is to move: expected an action, got None")
        board, reward, terminated, truncated, info = self._env.step(action)
        self._cumulative_rewards[agent] = 0.0
        other = BLACK if agent == WHITE else WHITE
        self.rewards = {agent: reward, other: 0.0 if bool(info["illegal_action"]) else -reward}
        self.terminations = dict.fromkeys(self.agents, terminated)
        self.truncations = dict.fromkeys(self.agents, truncated)
        if not bool(info["illegal_action"]):
            self._turn(board, info)
        else:
            self.infos[agent] = self._shown(info)
        self._accumulate_rewards()
        if self.render_mode == "human":
            self.render()

    def observe(self, agent: str) -> dict[str, NDArray[Any]]:
        """What the agent sees: `observation`, uint8 [C, 8, 8], and `action_mask`, int8 [1858]."""
        mask = np.zeros(NUM_ACTIONS, np.int8)
        if agent == self.agent_selection and not (
            self.terminations[agent] or self.truncations[agent]
        ):
            mask[self._env.action_masks()] = 1
        return {"observation": self._seen[agent], "action_mask": mask}

    def render(self) -> Any:
        """As of `ChessSelfPlayEnv`; None after printing the board with "human"."""
        shown = self._env.render()
        if self.render_mode != "human":
            return shown
        print(shown)
        return None

    def close(self) -> None:
        """Ends the engines that this environment started."""
        self._env.close()

    def fen(self) -> str:
        """The FEN of the position."""
        return self._env.fen()

    def _turn(self, board: NDArray[np.uint8], info: dict[str, Any]) -> None:
        self.agent_selection = WHITE if info["turn"] == 1 else BLACK
        self._seen[self.agent_selection] = board
        self.infos[self.agent_selection] = self._shown(info)

    def _shown(self, info: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in info.items() if name != "action_mask"}
