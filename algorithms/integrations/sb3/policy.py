"""This project's networks as a policy of sb3-contrib's MaskablePPO."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from algorithms.networks.build import build_policy, trained_parameters
from algorithms.networks.policy_net import PolicyNet
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.networks.weights import initialise
from chess_env.moves import NUM_ACTIONS

ADAM_EPS = 1e-8
"""Torch's default, as in this project's own runs; that of SB3's policies is 1e-5."""

ILLEGAL_LOGIT = -1e8
"""The logit of an illegal action under sb3-contrib's mask."""


class Answer(BaseFeaturesExtractor):
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
        precision = precision or PrecisionConfig()
        self.given: dict[str, Any] = {
            "config": config,
            "precision": precision,
            "seed": seed,
            "temperature": temperature,
            "frozen_layers": frozen_layers,
            "init_from": init_from,
        }
        super().__init__(
            observation_space,
            action_space,
            lr_schedule,
            net_arch=[],
            ortho_init=False,
            features_extractor_class=Answer,
            features_extractor_kwargs={
                "config": config,
                "precision": precision,
                "seed": seed,
                "init_from": init_from,
            },
            normalize_images=False,
        )

    @property
    def net(self) -> PolicyNet:
        """The network itself."""
        extractor = self.features_extractor
        assert isinstance(extractor, Answer)
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
