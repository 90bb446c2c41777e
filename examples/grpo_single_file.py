"""GRPO on chess self-play in one file: from the environment to the optimizer step, with nothing of `algorithms`.

    python examples/grpo_single_file.py            # some 20 seconds on one core; one line an update
    python examples/grpo_single_file.py --smoke    # a few seconds, to see that everything works

To be read from top to bottom. It is a run of examples/train_grpo.py with a smaller network and the built-in
evaluator. With the same network, weights and seed its losses, gradients, entropies, rewards and regrets are those of
the package at every update (tests/test_single_file.py). The package adds checkpoints, a record, controllers, other
algorithms, terms and forms of rollout, and engines in other processes.

Measured, seeds 0, 1 and 2: the policy gives away 383, 385 and 384 centipawns a move at the start (`regret_cp`),
104, 107 and 101 after 20 updates, and 63, 64 and 64 after 120, when its entropy is .7, .7 and .6 nats.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse
import math
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import chess_env  # noqa: F401 - registers ChessSelfPlay-v0
from chess_env.move_facts import MOVE_FACTS, NUM_MOVE_FACTS, move_facts_batch
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import PLANES, encode_batch
from chess_env.positions.heldout import load_heldout
from chess_env.rules.rules import legal_actions_batch


@dataclass
class Settings:
    """One run; a field is an option of the command line."""

    updates: int = 120
    num_envs: int = 64  # boards side by side
    num_plies: int = 4  # played on every board before an update; then all boards start anew
    group_size: int = 8  # moves drawn from one position: they are compared with each other
    temperature: float = 1.0  # of sampling and of learning alike
    clip_range: float = 0.2
    ent_coef: float = 0.35  # falls in a straight line ...
    ent_coef_final: float = 0.09  # ... to this at the end of the run
    learning_rate: float = 3e-3  # falls in a straight line to 0
    minibatch_size: int = 32  # positions in one step
    max_grad_norm: float = 1.0
    seed: int = 0
    evaluator: str = "builtin"  # or stockfish:depth=4
    start_positions: str = "random_plies:2-40"
    width: int = 64  # of the network
    eval_interval: int = 20  # updates between two looks at the held-out positions


# ---------------------------------------------------------------- the network


class Net(nn.Module):
    """One logit for each legal move: an MLP of one hidden layer over what is known of the move and of the board.

    Written as the package's networks of a user's own are (algorithms/networks/policy_net.py), so that
    `--policy.network module:Net` trains it there too.
    """

    reads_move_facts = True

    def __init__(self, config=None, *, critic=False, width=64):
        super().__init__()
        self.board = nn.Linear(len(PLANES) * 64, width)
        self.facts = nn.Linear(NUM_MOVE_FACTS, width, bias=False)
        self.action = nn.Embedding(NUM_ACTIONS, width)
        self.score = nn.Linear(width, 1, bias=False)
        nn.init.normal_(self.facts.weight, std=0.15)  # about 20 of a move's facts are set
        nn.init.zeros_(self.action.weight)
        nn.init.normal_(self.score.weight, std=0.05)  # small: the first policy is nearly uniform
        # Planes and facts are small whole numbers; their largest value becomes 1.
        self.register_buffer("plane_high", torch.tensor([float(plane.high) for plane in PLANES]))
        self.register_buffer("fact_high", torch.tensor([float(fact.high) for fact in MOVE_FACTS]))

    def forward(self, obs: Tensor, legal_ids: Tensor, move_facts: Tensor):
        """(logits [N, L] of the legal moves, None: there is no critic).

        obs is uint8 [N, C, 8, 8], legal_ids int16 [N, L] padded with -1, move_facts uint8 [N, L, F].
        """
        dtype = self.score.weight.dtype
        planes = obs.to(dtype) / self.plane_high[:, None, None]
        board = self.board(planes.flatten(1))  # [N, width]
        facts = self.facts(move_facts.to(dtype) / self.fact_high)  # [N, L, width]
        action = self.action(legal_ids.clamp(min=0).long())
        return self.score(F.relu(board[:, None] + facts + action)).squeeze(-1), None


def log_policy(
    net: Net, obs: Tensor, legal_ids: Tensor, move_facts: Tensor, temperature: float
) -> Tensor:
    """[N, L] log-probabilities of the legal moves; on padding a number near -1e38, whose probability is 0."""
    logits = net(obs, legal_ids, move_facts)[0] / temperature
    return logits.masked_fill(legal_ids < 0, torch.finfo(logits.dtype).min).log_softmax(-1)


def entropy_of(logprobs: Tensor) -> Tensor:
    """[N] exact entropy over the legal moves, in nats."""
    return -(logprobs.exp() * logprobs).sum(-1)


# ---------------------------------------------------------------- [1] to [3]: positions, moves, rewards


@torch.no_grad()
def rollout(env, info: dict, net: Net, settings: Settings, sampling: torch.Generator):
    """(columns of the rollout, info of the boards afterwards).

    At each ply every board's position goes through the network once. G moves are drawn from that one distribution
    and each of them is rewarded: with how much better the mover stands after it, by the evaluator. The first of them
    is played on, for both sides: the players are one policy, and a reward is always in the view of who moves.
    """
    columns: dict[str, list[Tensor]] = {}
    for _ in range(settings.num_plies):
        longest = info["num_legal"].max()  # lists are padded to 218 moves, and few are that long
        legal_ids = torch.from_numpy(info["legal_ids"][:, :longest].copy())
        facts = torch.from_numpy(info["move_facts"][:, :longest].copy())
        obs = torch.from_numpy(env.planes())
        logprobs = log_policy(net, obs, legal_ids, facts, settings.temperature)

        # G draws from each distribution: where G random numbers fall in its cumulative sum.
        cumulative = logprobs.double().exp().cumsum(-1)
        drawn = torch.rand(len(obs), settings.group_size, generator=sampling, dtype=torch.float64)
        slots = torch.searchsorted(cumulative, drawn * cumulative[:, -1:], right=True)
        slots = slots.minimum(torch.from_numpy(info["num_legal"]).long()[:, None] - 1)
        actions = legal_ids.long().gather(1, slots)

        rewards = env.score_actions(actions.numpy())["rewards"]  # [boards, G]; no board moves
        info = env.step(actions[:, 0].numpy())[-1]
        ply = {"obs": obs, "legal_ids": legal_ids, "move_facts": facts, "slots": slots}
        ply |= {"old_logprobs": logprobs.gather(1, slots), "rewards": torch.from_numpy(rewards)}
        for name, value in (ply | {"entropy": entropy_of(logprobs)}).items():
            columns.setdefault(name, []).append(value)
    return {name: stacked(name, plies) for name, plies in columns.items()}, info


def stacked(name: str, plies: list[Tensor]) -> Tensor:
    """[boards x plies, ...], board after board; lists of legal moves are padded to the longest."""
    if name in ("legal_ids", "move_facts"):
        longest, fill = max(ply.shape[1] for ply in plies), -1 if name == "legal_ids" else 0
        behind = [(0, 0) * (ply.dim() - 2) + (0, longest - ply.shape[1]) for ply in plies]
        plies = [F.pad(ply, pad, value=fill) for ply, pad in zip(plies, behind, strict=True)]
    return torch.stack(plies, dim=1).flatten(0, 1)


# ---------------------------------------------------------------- [4] to [7]: advantages, loss, step


def group_relative(rewards: Tensor) -> Tensor:
    """[N, G]: rewards minus their group's mean, over its standard deviation (arXiv:2402.03300).

    The moves of a group were drawn in one position, so its mean is the baseline that PPO needs a critic for.
    """
    centred = rewards - rewards.mean(-1, keepdim=True)
    return centred / (rewards.std(-1, keepdim=True) + 1e-4)  # 1e-4: equal rewards amplify no noise


def clipped(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_range: float
) -> Tensor:
    """[N, G] PPO's loss: a ratio that has left [1 - clip, 1 + clip] in its advantage's direction has no gradient."""
    ratio = (logprobs - old_logprobs).exp()
    bounded = ratio.clamp(1 - clip_range, 1 + clip_range)
    return -torch.minimum(ratio * advantages, bounded * advantages)


def learn(
    net: Net,
    optimizer,
    batch: dict[str, Tensor],
    settings: Settings,
    ent_coef: float,
    order: torch.Generator,
):
    """(mean loss, mean gradient norm) of one pass over the rollout in minibatches, a step for each."""
    advantages = group_relative(batch["rewards"])
    states = len(advantages)
    parts = torch.randperm(states, generator=order).tensor_split(
        -(-states // settings.minibatch_size)
    )
    losses, norms = [], []
    for index in parts:
        seen = (batch[name][index] for name in ("obs", "legal_ids", "move_facts"))
        logprobs = log_policy(net, *seen, settings.temperature)
        chosen = logprobs.gather(1, batch["slots"][index])
        surrogate = clipped(
            chosen, batch["old_logprobs"][index], advantages[index], settings.clip_range
        )
        # The bonus holds the entropy up: the surrogate alone makes the policy certain within some dozen updates.
        loss = surrogate.mean() - ent_coef * entropy_of(logprobs).mean()
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(net.parameters(), settings.max_grad_norm))
        optimizer.step()
        losses.append(loss.detach())
    return float(torch.stack(losses).mean()), float(torch.stack(norms).mean())


# ---------------------------------------------------------------- [8]: evaluation


@torch.no_grad()
def regret_cp(net: Net, temperature: float) -> float:
    """Centipawns that the policy gives away per move, on positions that no run starts from: `eval/regret_cp`.

    The mean over the held-out positions of sum_a pi(a) min(1000, best score - score of a), by a table of every legal
    move's score (Stockfish, depth 8; in +-1000).
    """
    table = load_heldout()
    rows = table.indices("random_2_40")
    positions = np.ascontiguousarray(table.positions[rows])
    legal_ids, num_legal = legal_actions_batch(positions)
    legal_ids = np.ascontiguousarray(legal_ids[:, : num_legal.max()])
    scores = np.full(legal_ids.shape, -math.inf)
    for row, index in enumerate(rows):
        scores[row, : num_legal[row]] = table.scores_cp(index).clip(-1000, 1000)
    regret = np.minimum(1000, scores.max(1, keepdims=True) - scores)
    regret[legal_ids < 0] = 0.0
    obs = encode_batch(positions, np.zeros(len(rows), np.uint8))
    facts = move_facts_batch(positions, legal_ids)
    logprobs = log_policy(net, *map(torch.from_numpy, (obs, legal_ids, facts)), temperature)
    return float((logprobs.double().exp() * torch.from_numpy(regret)).sum(-1).mean())


# ---------------------------------------------------------------- the loop


def train(settings: Settings, show=print) -> list[dict[str, float]]:
    """What each update showed: moves, reward, entropy, loss, grad_norm, and regret_cp where it was measured."""
    torch.set_num_threads(1)  # a network this small gains nothing from a second one
    torch.manual_seed(settings.seed)
    net = Net(width=settings.width)
    optimizer = torch.optim.Adam(net.parameters(), settings.learning_rate)
    sampling = torch.Generator().manual_seed(settings.seed)
    order = torch.Generator().manual_seed(settings.seed)
    env = gym.make_vec(
        "ChessSelfPlay-v0",
        num_envs=settings.num_envs,
        evaluator=settings.evaluator,  # the reward is what the mover gains in winning probability
        start_positions=settings.start_positions,
        max_plies=settings.num_plies,
        move_facts=True,
    )
    _, info = env.reset(seed=settings.seed)
    rows, began = [], time.monotonic()
    for update in range(settings.updates):
        share = update / settings.updates
        ent_coef = settings.ent_coef + (settings.ent_coef_final - settings.ent_coef) * share
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - share)
        batch, info = rollout(env, info, net, settings, sampling)
        loss, grad_norm = learn(net, optimizer, batch, settings, ent_coef, order)
        free = (batch["legal_ids"] >= 0).sum(-1) >= 2  # a forced move has no entropy to speak of
        row = {
            "moves": (update + 1) * batch["rewards"].numel(),
            "reward": float(batch["rewards"].mean()),
            "entropy": float(batch["entropy"][free].mean()),
            "loss": loss,
            "grad_norm": grad_norm,
        }
        if (update + 1) % settings.eval_interval == 0 or update + 1 == settings.updates:
            row["regret_cp"] = regret_cp(net, settings.temperature)
        rows.append(row)
        shown = "  ".join(f"{name} {value:,.4g}" for name, value in row.items() if name != "moves")
        show(
            f"{update + 1:>4}  {row['moves']:>8,} moves  {time.monotonic() - began:5.1f} s  {shown}"
        )
    env.close()
    return rows


def main() -> None:
    """Reads the options, trains, and prints one line an update."""
    parser = argparse.ArgumentParser(description="GRPO on chess self-play, in one file")
    parser.add_argument("--smoke", action="store_true", help="a run of a few seconds")
    for name, default in vars(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    options = vars(parser.parse_args())
    small = {"updates": 3, "num_envs": 16} if options.pop("smoke") else {}
    train(Settings(**options | small))


if __name__ == "__main__":
    main()
