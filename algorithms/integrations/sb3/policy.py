"""This project's network as a policy of sb3-contrib's MaskablePPO."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from algorithms.integrations.sb3.settings import ADAM_EPS
from algorithms.networks.build import build_policy, trained_parameters
from algorithms.networks.residual import ResidualPolicy
from algorithms.networks.settings import NetworkConfig, PrecisionConfig
from algorithms.networks.weights import initialise
from chess_env.moves import NUM_ACTIONS


class Squares(BaseFeaturesExtractor):
    """`[N, 64 x channels]` features of the planes: the trunk of a freshly built network.

    Args:
        observation_space: the planes.
        config: of the network.
        precision: where it computes below float32.
        seed: of its weights; the same as in this project's own runs.
        init_from: weights in their place, as in `TrainConfig`; None keeps the random ones.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        config: NetworkConfig,
        precision: PrecisionConfig,
        seed: int,
        init_from: str | None,
    ) -> None:
        super().__init__(observation_space, features_dim=64 * config.dimensions.channels)
        cpu = torch.device("cpu")
        net = build_policy(config, seed=seed, device=cpu, critic=True, precision=precision)
        assert isinstance(net, ResidualPolicy)  # check_mappable refuses any other
        self.net = net
        if init_from is not None:
            initialise(self.net, init_from)

    def forward(self, obs: Tensor) -> Tensor:
        """`[N, 64 * channels]` features, square by square."""
        return self.net.squares(obs).flatten(1)


class MoveLogits(nn.Module):
    """`[N, 1858]` logits of all actions over the temperature, from the features; masked by SB3."""

    def __init__(self, net: ResidualPolicy, temperature: float) -> None:
        super().__init__()
        self.net = net
        self.temperature = temperature
        self.register_buffer("actions", torch.arange(NUM_ACTIONS), persistent=False)
        self.actions: Tensor

    def forward(self, features: Tensor) -> Tensor:
        """`[N, 1858]` logits of the actions in their order."""
        squares = features.unflatten(1, (64, -1))
        ids = self.actions.expand(len(features), -1)
        return self.net.move_logits(squares, ids) / self.temperature


class Values(nn.Module):
    """`[N, 1]` values, side to move's view, from the features."""

    def __init__(self, net: ResidualPolicy) -> None:
        super().__init__()
        self.net = net

    def forward(self, features: Tensor) -> Tensor:
        """`[N, 1]` values, reward units."""
        values = self.net.state_values(features.unflatten(1, (64, -1)))
        assert values is not None  # the network is built with a critic
        return values.unsqueeze(-1)


class PlanesPolicy(MaskableActorCriticPolicy):
    """The same trunk, legal-move head and critic as in this project's own runs, from the same seed.

    Args:
        observation_space: the planes.
        action_space: the 1,858 actions.
        lr_schedule: SB3's.
        config: of the network.
        precision: where it computes below float32.
        seed: of its first weights.
        temperature: of the softmax, in sampling and learning.
        frozen_layers: what is not trained, as in `OptimizerConfig`.
        init_from: weights to start from, as in `TrainConfig`.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        lr_schedule: Any,
        *,
        config: NetworkConfig,
        precision: PrecisionConfig,
        seed: int,
        temperature: float,
        frozen_layers: tuple[str, ...] = (),
        init_from: str | None = None,
    ) -> None:
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
            features_extractor_class=Squares,
            features_extractor_kwargs={
                "config": config,
                "precision": precision,
                "seed": seed,
                "init_from": init_from,
            },
            normalize_images=False,
        )

    @property
    def net(self) -> ResidualPolicy:
        """The network itself."""
        extractor = self.features_extractor
        assert isinstance(extractor, Squares)
        return extractor.net

    def _build(self, lr_schedule: Any) -> None:
        """Heads and optimizer; called by the constructor."""
        self._build_mlp_extractor()  # without layers: it hands the features on
        self.action_net = MoveLogits(self.net, self.given["temperature"])
        self.value_net = Values(self.net)  # type: ignore[assignment]  # SB3's own is one layer
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
