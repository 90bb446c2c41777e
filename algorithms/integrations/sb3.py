"""The boards as a Stable-Baselines3 `VecEnv`, with masks, and the networks as a policy of sb3-contrib's MaskablePPO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from algorithms.networks.build import build_policy, initialise, trained_parameters
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from chess_env.move_facts import FactsAsked, facts_asked
from chess_env.moves import NUM_ACTIONS
from chess_env.rules.movegen import MAX_LEGAL
from chess_env.vector_env import ChessSelfPlayVectorEnv

Infos = list[dict[str, Any]]
Observed = NDArray[np.uint8] | dict[str, NDArray[Any]]
"""The planes, or a dictionary of them and of the network's other inputs."""

MASKS = "action_masks"


class BoardsVecEnv(VecEnv):
    """P chess boards as the N environments of an SB3 algorithm.

    Against an opponent an environment is a board (N = P), a step is the learner's move with the reply
    to it, and an episode is a game: SB3's advantages, which know one player, are then right.

    Without one the players move in turn, and SB3's advantages do not know that. Every move is then an
    episode of its own, of `moves_per_position` environments that share a board (N = P times as many,
    board by board): all their moves are scored, and the first one is played on. That is this project's
    `positions` form at gamma 0. Nothing follows such an episode, so it has no `terminal_observation`.

    As SB3 expects, an ended game is replaced in the same step: the observation is the new game's, the
    old one's last is `terminal_observation` in the infos, `TimeLimit.truncated` is True where only the
    ply limit ended it. All arrays are copies. `seed` s starts board i from s + i, as everywhere here.

    An observation is the planes, uint8 `[C, 8, 8]`. With `legal_ids`, or boards made with `move_facts`, it
    is a dictionary: `planes`, `legal_ids` int16 `[218]` (ascending, padded with -1), and of such boards
    `move_facts` uint8 `[218, F]`. SB3's buffers keep each in its dtype.

    Args:
        vec: the boards, with SAME_STEP autoreset.
        moves_per_position: None exactly where `vec` has an opponent.
        legal_ids: whether the observation has them even where it has no move facts.

    Raises:
        ValueError: another autoreset mode, or opponent and moves per position do not fit.
    """

    def __init__(
        self,
        vec: ChessSelfPlayVectorEnv,
        moves_per_position: int | None,
        *,
        legal_ids: bool = False,
    ) -> None:
        if vec.autoreset_mode is not AutoresetMode.SAME_STEP:
            raise ValueError(
                f"autoreset_mode is {vec.autoreset_mode}: SB3 replaces a game in the step that ends "
                "it; make the boards with SAME_STEP"
            )
        versus = vec.settings.opponent is not None
        if versus is not (moves_per_position is None) or moves_per_position == 0:
            raise ValueError(
                f"moves_per_position is {moves_per_position} and the boards have "
                f"{'an' if versus else 'no'} opponent: give None with one, at least 1 without"
            )
        self.vec = vec
        self.moves_per_position = moves_per_position
        self._actions: NDArray[np.int64] | None = None
        facts = vec.settings.move_facts
        # What an observation takes from the info.
        self._named = ("legal_ids",) * (legal_ids or bool(facts)) + ("move_facts",) * bool(facts)
        planes = vec.single_observation_space
        space = _with_moves(planes, self._named, facts) if self._named else planes
        rows = vec.num_envs * (moves_per_position or 1)
        super().__init__(rows, space, vec.single_action_space)

    def reset(self) -> Observed:
        """Observations `[N, ...]` of new games, from the seeds given to `seed`.

        Raises:
            ValueError: options were set; starts are chosen where the boards are made.
        """
        if any(self._options):
            raise ValueError(
                f"options are {self._options}: expected none; give start_positions to the boards"
            )
        # One seed for each environment: those that share a board have the board's first.
        seeds = self._seeds[: self.vec.num_envs]
        observations, info = self.vec.reset(seed=None if seeds[0] is None else seeds)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return self._observed(observations, info)

    def step_async(self, actions: NDArray[np.integer]) -> None:
        """Keeps the actions, integers `[N]`, for `step_wait`."""
        self._actions = np.array(actions, np.int64)

    def step_wait(self) -> tuple[Observed, NDArray[np.float32], NDArray[np.bool_], Infos]:
        """(observations `[N, ...]`, rewards float32 `[N]`, ended bool `[N]`, infos).

        Raises:
            gymnasium.error.ResetNeeded: no action is waiting.
        """
        if self._actions is None:
            raise gym.error.ResetNeeded("call step_async(actions) before step_wait()")
        actions, self._actions = self._actions, None
        if self.moves_per_position is None:
            return self._play(actions)
        return self._score(actions.reshape(self.vec.num_envs, self.moves_per_position))

    def _play(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Infos]:
        """The learner's moves and the replies to them."""
        observations, rewards, terminated, truncated, info = self.vec.step(actions)
        cut, ended = truncated & ~terminated, terminated | truncated
        infos: Infos = [{"TimeLimit.truncated": limit} for limit in cut.tolist()]
        for row in np.flatnonzero(ended).tolist():
            final = info["final_info"]
            last = {name: _on_all_slots(name, final[name][row]).copy() for name in self._named}
            planes = info["final_obs"][row].copy()
            infos[row]["terminal_observation"] = {"planes": planes} | last if last else planes
            self.reset_infos[row] = {}
        return self._observed(observations, info), rewards.astype(np.float32), ended, infos

    def _score(self, actions: NDArray[np.int64]) -> tuple[Any, Any, Any, Infos]:
        """All moves `[P, G]` scored, the first of each board played on."""
        rewards = self.vec.score_actions(actions)["rewards"].reshape(-1)
        observations, _, _, _, info = self.vec.step(actions[:, 0])
        infos: Infos = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        observed, ended = self._observed(observations, info), np.ones(self.num_envs, np.bool_)
        return observed, rewards, ended, infos

    def _observed(self, planes: NDArray[np.uint8], info: Mapping[str, Any]) -> Observed:
        """What each environment is shown of its board."""
        named = {name: self._by_row(_on_all_slots(name, info[name])) for name in self._named}
        return {"planes": self._by_row(planes)} | named if named else self._by_row(planes)

    def _by_row(self, by_board: NDArray[Any]) -> NDArray[Any]:
        """`[N, ...]` from `[P, ...]`; a copy where boards are shared, otherwise the array itself."""
        shared = self.moves_per_position or 1
        return by_board if shared == 1 else np.repeat(by_board, shared, axis=0)

    def close(self) -> None:
        """Closes the boards."""
        self.vec.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of the boards for each environment; `action_masks` is a method of each.

        Raises:
            AttributeError: the boards have no such attribute.
        """
        rows: Iterable[int] = self._get_indices(indices)
        if attr_name == MASKS:
            return [partial(self._mask, row) for row in rows]
        value = getattr(self.vec, attr_name)
        return [value for _ in rows]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raises AttributeError: what the boards play by is fixed where they are made."""
        raise AttributeError(f"{attr_name} cannot be set: make new boards with the value you want")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """`action_masks` of each environment, bool `[1858]`: the one method that an algorithm asks for.

        Raises:
            AttributeError: another method; the boards advance together and have none one by one.
        """
        if method_name != MASKS:
            raise AttributeError(
                f"{method_name} is no method of a single environment here: expected {MASKS}; "
                "for others use the boards (`vec`) themselves"
            )
        masks = self._by_row(self.vec.action_masks())
        return [masks[row] for row in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """False for each environment."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """uint8 [H, W, 3], one picture for each environment in the render mode rgb_array; None otherwise."""
        frames = self.vec.render() if self.render_mode == "rgb_array" else None
        if frames is None:
            return [None for _ in range(self.num_envs)]
        return [frames[row // (self.moves_per_position or 1)] for row in range(self.num_envs)]

    def _mask(self, row: int) -> NDArray[np.bool_]:
        return self.vec.action_masks()[row // (self.moves_per_position or 1)]


def _with_moves(
    planes: gym.Space[Any], named: tuple[str, ...], asked: FactsAsked
) -> gym.spaces.Dict:
    """Space of an observation that has the arrays `named` beside the planes."""
    high = np.array([fact.high for fact in facts_asked(asked)], np.uint8)
    spaces: dict[str, gym.Space[Any]] = {
        "legal_ids": gym.spaces.Box(-1, NUM_ACTIONS - 1, (MAX_LEGAL,), np.int16),
        "move_facts": gym.spaces.Box(np.uint8(0), np.tile(high, (MAX_LEGAL, 1)), dtype=np.uint8),
    }
    return gym.spaces.Dict({"planes": planes} | {name: spaces[name] for name in named})


def _on_all_slots(name: str, of_moves: NDArray[Any]) -> NDArray[Any]:
    """`[..., 218]` legal ids or `[..., 218, F]` facts, with 0 behind the longest list: SB3's buffers have one size."""
    if name != "move_facts":
        return of_moves
    missing = MAX_LEGAL - of_moves.shape[-2]
    return np.pad(of_moves, [(0, 0)] * (of_moves.ndim - 2) + [(0, missing), (0, 0)])


ADAM_EPS = 1e-8
"""Torch's default, as in this project's own runs; that of SB3's policies is 1e-5."""

ILLEGAL_LOGIT = -1e8
"""The logit of an illegal action under sb3-contrib's mask."""


class PolicyAnswer(BaseFeaturesExtractor):
    """A new network's logits and values for an observation, as one pair of "features".

    There are no layers between these features and SB3's heads, so SB3 hands the pair on as it is. Where the
    observation has `legal_ids`, the network is asked for the legal moves alone; otherwise for every action.

    Args:
        observation_space: that of `BoardsVecEnv`.
        config: of the network.
        precision: where it computes below float32.
        seed: of its weights; the same as in this project's own runs.
        init_from: weights to start from, as in `TrainConfig`; None keeps the random ones.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        config: NetworkConfig,
        precision: PrecisionConfig,
        seed: int,
        init_from: str | None,
    ) -> None:
        super().__init__(observation_space, features_dim=NUM_ACTIONS + 1)
        cpu = torch.device("cpu")
        self.net = build_policy(config, seed=seed, device=cpu, critic=True, precision=precision)
        if init_from is not None:
            initialise(self.net, init_from)
        self.net.eval()
        self.register_buffer("actions", torch.arange(NUM_ACTIONS), persistent=False)
        self.actions: Tensor

    def forward(self, observed: Tensor | dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(`[N, 1858]` logits, `[N]` values); the arrays of the observation are SB3's, float32."""
        if isinstance(observed, Tensor):
            every = self.actions.expand(len(observed), -1)
            logits, values = self.net.logits_and_values(observed.to(torch.uint8), every, None)
        else:
            logits, values = self._of_legal_moves(observed)
        assert values is not None  # the network is built with a critic
        return logits, values

    def _of_legal_moves(self, observed: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """(`[N, 1858]` logits, `[N]` values), asked for the legal moves alone."""
        ids = observed["legal_ids"].long()
        width = max(1, int((ids >= 0).sum(1).max()))  # a finished game has no move
        ids, facts = ids[:, :width], observed.get("move_facts")
        if facts is not None:
            facts = facts[:, :width].to(torch.uint8)
        logits, values = self.net.logits_and_values(observed["planes"].to(torch.uint8), ids, facts)
        # Padding goes to a column of its own, which is cut off.
        every = logits.new_full((len(ids), NUM_ACTIONS + 1), ILLEGAL_LOGIT)
        columns = ids.masked_fill(ids < 0, NUM_ACTIONS)
        return every.scatter(1, columns, logits)[:, :NUM_ACTIONS], values


class Logits(nn.Module):
    """The logits among the features, over the temperature; masked by SB3."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, answer: tuple[Tensor, Tensor]) -> Tensor:
        """`[N, 1858]` logits of the actions in their order."""
        return answer[0] / self.temperature


class Values(nn.Module):
    """The values among the features."""

    def forward(self, answer: tuple[Tensor, Tensor]) -> Tensor:
        """`[N, 1]` values, side to move's view, reward units."""
        return answer[1].unsqueeze(-1)


class NetworkPolicy(MaskableActorCriticPolicy):
    """The same network with its critic as in this project's own runs, from the same seed.

    Args:
        observation_space: that of `BoardsVecEnv`.
        action_space: the 1,858 actions.
        lr_schedule: SB3's.
        config: of the network.
        precision: where it computes below float32; None: nowhere.
        seed: of its first weights.
        temperature: of the softmax, in sampling and learning.
        frozen_layers: layers that are not trained, as in `OptimizerConfig`.
        init_from: weights to start from, as in `TrainConfig`.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        lr_schedule: Any,
        *,
        config: NetworkConfig,
        precision: PrecisionConfig | None = None,
        seed: int = 0,
        temperature: float = 1.0,
        frozen_layers: tuple[str, ...] = (),
        init_from: str | None = None,
    ) -> None:
        of_network: dict[str, Any] = {
            "config": config,
            "precision": precision or PrecisionConfig(),
            "seed": seed,
            "init_from": init_from,
        }
        self.given = {**of_network, "temperature": temperature, "frozen_layers": frozen_layers}
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch=[],
            ortho_init=False,
            features_extractor_class=PolicyAnswer,
            features_extractor_kwargs=of_network,
            normalize_images=False,
        )

    @property
    def net(self) -> PolicyNet:
        """The network itself."""
        extractor = self.features_extractor
        assert isinstance(extractor, PolicyAnswer)
        return extractor.net

    def set_training_mode(self, mode: bool) -> None:
        """Sets evaluation mode always, as in this project's own runs.

        With dropout in learning and not in sampling, every ratio would be wrong.
        """
        self.train(False)

    def _build(self, lr_schedule: Any) -> None:
        """Heads and optimizer; called by the constructor."""
        self._build_mlp_extractor()  # without layers: it hands the answer on
        self.action_net = Logits(self.given["temperature"])
        self.value_net = Values()  # type: ignore[assignment]  # SB3's own is one layer
        trained = trained_parameters(self.net, self.given["frozen_layers"])
        self.optimizer = torch.optim.Adam(trained, lr=lr_schedule(1), eps=ADAM_EPS)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """What `save` keeps beside the weights."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "lr_schedule": self._dummy_schedule,
            **self.given,
        }
