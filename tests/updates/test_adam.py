"""Adam here is torch's, to the bit, and its state can be handed from one to the other."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch

from algorithms.updates.adam import Adam

SHAPES = [(7, 5), (5,), (1, 3, 2)]


def parameters() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def give_gradients(own: list[torch.nn.Parameter], step: int) -> None:
    """The same gradients to every list; none to the second parameter before step 3."""
    generator = torch.Generator().manual_seed(100 + step)
    for number, parameter in enumerate(own):
        gradient = torch.randn(parameter.shape, generator=generator) * 10 ** (step % 5 - 2)
        parameter.grad = None if number == 1 and step < 3 else gradient


def same(one: list[torch.nn.Parameter], other: list[torch.nn.Parameter]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_every_step_is_that_of_torch_to_the_bit() -> None:
    ours, theirs = parameters(), parameters()
    optimizer, reference = Adam(ours, 0.01), torch.optim.Adam(theirs, 0.01, foreach=True)
    for step in range(20):
        for each, own in ((optimizer, ours), (reference, theirs)):
            each.param_groups[0]["lr"] = 0.01 / (1 + step)
            give_gradients(own, step)
            each.step()
        assert same(ours, theirs)
        assert (ours[1].grad is None) == (step < 3)


@pytest.mark.parametrize("first_is_torch", [True, False])
def test_a_state_goes_on_in_the_other_one(first_is_torch: bool) -> None:
    def make(own: list[torch.nn.Parameter], by_torch: bool) -> Adam | torch.optim.Adam:
        return torch.optim.Adam(own, 0.1, foreach=True) if by_torch else Adam(own, 0.1)

    kept, moved = parameters(), parameters()
    whole, first = make(kept, first_is_torch), make(moved, first_is_torch)
    for step in range(6):
        for each, own in ((whole, kept), (first, moved)):
            give_gradients(own, step)
            each.step()
    other = make(moved, not first_is_torch)
    groups = other.state_dict()["param_groups"]
    other.load_state_dict({**copy.deepcopy(first.state_dict()), "param_groups": groups})
    for step in range(6, 12):
        for each, own in ((whole, kept), (other, moved)):
            give_gradients(own, step)
            each.step()
    assert same(kept, moved)


def test_zero_grad_removes_gradients_or_fills_them_with_zeros() -> None:
    own = parameters()
    optimizer = Adam(own, 0.1)
    give_gradients(own, 9)
    optimizer.zero_grad(set_to_none=False)
    assert all(p.grad is not None and not p.grad.any() for p in own)
    optimizer.zero_grad()
    assert all(p.grad is None for p in own)


def test_a_state_of_another_number_of_parameters_is_refused() -> None:
    optimizer = Adam(parameters(), 0.1)
    with pytest.raises(ValueError, match="2 parameters, expected 3"):
        optimizer.load_state_dict(Adam(parameters()[:2], 0.1).state_dict())


@pytest.mark.slow
@pytest.mark.parametrize("network", ["move_net", "transformer"])
def test_training_on_a_cpu_does_not_import_the_compiler(network: str, tmp_path: object) -> None:
    lines = (
        "import sys; from algorithms import cli; "
        "code = cli.main(sys.argv[1:]); assert not code, code; "
        "assert 'torch.optim' in sys.modules; "
        "found = {'torch._dynamo', 'sympy'} & sys.modules.keys(); assert not found, found"
    )
    command = ["train", "grpo", "--env.evaluator", "builtin", "--device", "cpu", "--policy.size", "tiny",
               "--total-moves", "16", "--rollout.num-envs", "2", "--rollout.num-plies", "1"]  # fmt: skip
    more = ["--policy.network", network, "--run-dir", f"{tmp_path}/run"]
    done = subprocess.run(
        [sys.executable, "-c", lines, *command, *more], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
