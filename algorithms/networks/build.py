"""Networks made from their settings, the device they are on, and the weights that a run starts from."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch._functorch.config
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from algorithms.core.checks import nearest, require_choice, shown
from algorithms.networks.move_net import MoveNet, transformer
from algorithms.networks.policy_net import CustomPolicy, PolicyNet, asks_for_move_facts
from algorithms.networks.residual import ResidualPolicy
from algorithms.networks.settings import (
    DEFAULT_PRECISION,
    SIZES,
    WITHOUT_BLOCKS,
    WITHOUT_FACTS,
    NetworkConfig,
    PrecisionConfig,
)
from algorithms.run_folder import checkpoint
from algorithms.run_folder.atomic_files import cut, read_file
from chess_env.move_facts import FactsAsked, groups_of_columns
from chess_env.observation import NUM_PLANES

DEVICES = ("auto", "cpu", "cuda")


def choose_device(name: str) -> torch.device:
    """The device that "auto", "cpu" or "cuda" means here.

    Raises:
        ValueError: another name, or "cuda" where there is none.
    """
    if name not in DEVICES:  # such as "cuda:1" or "tpu": another device than the one asked for
        raise ValueError(f"device is {name!r}: expected one of {', '.join(DEVICES)}")
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            "device is 'cuda' but torch sees no CUDA device (`chess-lab check` says more): "
            "use --device auto or --device cpu"
        )
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


@contextlib.contextmanager
def usual_torch() -> Iterator[None]:
    """Computes as torch and NumPy do in a new process, whatever this process has set, and leaves that as it was.

    Default dtype and device, gradients, autocast, deterministic algorithms, precision of products, number of threads,
    and what NumPy does on overflow. A run would otherwise depend on who started it.
    """
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    strict, warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_default_dtype(torch.float32)
        if strict:  # only then: it imports the compiler
            torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
        with contextlib.ExitStack() as stack:
            stack.enter_context(np.errstate(all="warn", under="ignore"))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            # Only then: it costs time in every call of torch.
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            for kind in ("cpu", "cuda"):
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            yield
    finally:
        torch.set_default_dtype(dtype)
        if strict:
            torch.use_deterministic_algorithms(strict, warn_only=warns)
        torch.set_float32_matmul_precision(precision)
        torch.set_num_threads(threads)


class Make(Protocol):
    """Makes a network with fresh weights."""

    def __call__(
        self, config: NetworkConfig, *, critic: bool, precision: PrecisionConfig
    ) -> PolicyNet:
        """The network of these settings."""
        ...


NETWORKS: dict[str, Make] = {
    "move_net": MoveNet,
    "resnet": ResidualPolicy,
    "transformer": transformer,
}
"""The networks of this project, whose sizes stand in `algorithms.networks.settings.SIZES`."""


@usual_torch()
def build_policy(
    config: NetworkConfig,
    *,
    seed: int,
    device: torch.device,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> PolicyNet:
    """A freshly initialised network on `device`.

    The same seed gives the same weights on every device, and the same policy with and without a
    critic. The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        policy = make_policy(config, critic=critic, precision=precision)
    return policy.to(device)


def make_policy(
    config: NetworkConfig,
    *,
    critic: bool = False,
    precision: PrecisionConfig = DEFAULT_PRECISION,
) -> PolicyNet:
    """The network that the settings name, with weights drawn from torch's global generator.

    Raises:
        ValueError: `config.network` names nothing that is a network.
    """
    make: Make = CustomPolicy if config.is_custom else NETWORKS[config.network]
    return make(config, critic=critic, precision=precision)


def reads_move_facts(config: NetworkConfig) -> FactsAsked:
    """Which facts of each legal move the network that the settings name is given; nothing is built.

    Raises:
        ValueError: `config.network` names nothing.
    """
    if config.is_custom:
        return asks_for_move_facts(config.network) and (config.facts or True)
    return config.network not in WITHOUT_FACTS and (config.facts or True)


def compile_trunk(policy: PolicyNet, *, num_boards: int) -> None:
    """Makes `policy` compute its trunk by torch.compile from now on, with the same weights under the same names.

    A copy of the policy is not compiled. The first pass of each kind (with and without a gradient, another
    number of states) takes seconds to tens of seconds.

    Args:
        policy: on CUDA.
        num_boards: a pass of so many states without a gradient is that of a ply. It has one shape in the whole run, so
            that its kernels are recorded once and launched together (a CUDA graph).

    Raises:
        ValueError: the trunk has no weights.
    """
    trunk = policy.trunk()
    if next(trunk.parameters(), None) is None:
        raise ValueError(
            f"compile is on and {policy.config.label} has no trunk to compile (blocks is 0): leave compile "
            "out, or choose a network with blocks"
        )
    # The diagnostics take several gradients through one forward pass.
    torch._functorch.config.donated_buffer = False
    always = torch.compile(trunk._call_impl)
    of_a_ply = torch.compile(trunk._call_impl, mode="reduce-overhead", dynamic=False)

    def compiled(states: Tensor, *others: Tensor) -> Any:
        # A network of a user's own is given the legal moves too, whose number changes from ply to ply.
        if others or len(states) != num_boards or torch.is_grad_enabled():
            return always(states, *others)
        return of_a_ply(states).clone()  # the next ply overwrites what a graph returns

    # Where `nn.Module.compile` puts its own, which a module calls in place of its `forward` and does not copy.
    trunk._compiled_call_impl = compiled


def trained_parameters(network: nn.Module, frozen_layers: Sequence[str]) -> list[nn.Parameter]:
    """The parameters that an optimizer may change; the others no longer have a gradient.

    Args:
        network: the network.
        frozen_layers: names of modules or parameters; all that is inside a module is frozen with it.

    Raises:
        ValueError: a name that the network does not have, or nothing is left to train.
    """
    named = dict(network.named_parameters())
    known = {
        ".".join(name.split(".")[:end])
        for name in named
        for end in range(1, 1 + name.count(".") + 1)
    }
    for layer in frozen_layers:
        if layer not in known:  # the list of all is long: blocks, their layers, weights and biases
            near = sorted(name for name in known if name.count(".") < 2)
            require_choice("one of optimizer.frozen_layers", layer, near)
    frozen = {
        name
        for name in named
        for layer in frozen_layers
        if name == layer or name.startswith(f"{layer}.")
    }
    for name in frozen:
        named[name].requires_grad_(False)
    trained = [parameter for name, parameter in named.items() if name not in frozen]
    if not trained:
        raise ValueError(
            f"optimizer.frozen_layers freezes all {len(named)} parameters: leave one layer out"
        )
    return trained


SHIPPED = Path(__file__).with_name("shipped")
"""Policies that come with the project: NAME.safetensors and its SHA-256 in NAME.sha256."""

_CRITIC = "value_head."


class _Told(NamedTuple):
    """The weights that tell a network's dimensions: rows of the first two, and one in each block.

    The columns of the first are planes.
    """

    channels: str
    head_dim: str
    in_block: str


_TOLD = {
    "resnet": _Told("stem.weight", "from_vector.weight", ".pooled.weight"),
    "transformer": _Told("embedding.planes.weight", "head.from_features.weight", ".asked.weight"),
    "move_net": _Told(
        "embedding.planes.weight", "head.from_features.weight", ".across_squares.0.weight"
    ),
}


_FACTS = "head.fact_features.weight"
"""Its columns are facts of moves."""


def initialise(policy: PolicyNet, source: str) -> None:
    """Gives the policy the weights of `source`.

    A critic stays as it is initialised where the source has none, and is left out where the policy
    has none.

    Args:
        policy: its network must be the source's.
        source: a run folder (its newest checkpoint), a checkpoint folder, a .safetensors file, or
            the name of a shipped policy.

    Raises:
        ValueError: there is nothing to read, it is damaged, or it holds another network.
    """
    try:
        weights = read_weights(source)
    except ValueError as error:
        raise ValueError(f"init_from {error}") from error
    own = policy.state_dict()
    fresh = {name: tensor for name, tensor in own.items() if name.startswith(_CRITIC)}
    read = {
        name: tensor
        for name, tensor in weights.items()
        if name in own or not name.startswith(_CRITIC)
    }
    try:
        policy.load_state_dict(fresh | read)
    except RuntimeError as error:
        differs = _what_differs(weights, source, policy.config) or other_planes(
            weights, policy.config
        )
        raise ValueError(
            f"init_from {shown(source)} holds another network than the one configured "
            f"{differs or f'({cut(error)}): give the policy settings that it was trained with'}"
        ) from error


@torch.no_grad()
def scale_logits(policy: PolicyNet, factor: float) -> None:
    """Multiplies all logits, by the parameters that they are linear in.

    Raises:
        ValueError: the network does not say which these are.
    """
    factors = policy.logit_factors()
    for parameter in (factors.action_bias, *factors.others):
        parameter.mul_(factor)


def read_weights(source: str) -> dict[str, Tensor]:
    """The state_dict in `source`: tensors by name, each in the shape of its parameter, on the CPU.

    Args:
        source: as for `initialise`.

    Raises:
        ValueError: there is nothing to read, or it is damaged.
    """
    path = SHIPPED / f"{source}.safetensors" if source in shipped_names() else Path(source)
    try:
        if (path / "manifest.json").exists():
            return checkpoint.load_weights(path)
        if (path / "checkpoints").is_dir():
            return checkpoint.load_newest(path / "checkpoints").weights
        in_checkpoint = path.name in checkpoint.FILES and (path.parent / "manifest.json").exists()
        raw = checkpoint.read_verified(path) if in_checkpoint else read_file(path)
        record = path.with_suffix(".sha256")
        digest = hashlib.sha256(raw).hexdigest()
        if record.exists() and not _names(record, digest):
            raise ValueError(
                f"{path} is damaged: its SHA-256 is not that in {record.name}; copy the file anew"
            )
        return load_tensors(raw)
    except (OSError, checkpoint.CheckpointError, SafetensorError, KeyError) as error:
        known, near = ", ".join(shipped_names()) or "none", nearest(source, shipped_names())
        meant = f"; did you mean {near!r}?" if near else ""
        raise ValueError(
            f"{shown(source)} cannot be read ({_why(error)}): give a run folder, a checkpoint "
            f"folder, a .safetensors file, or a shipped policy ({known}){meant}"
        ) from error


def _why(error: Exception) -> str:
    """Without the path that an OSError repeats: it may be as long as the source."""
    return str(error.strerror) if isinstance(error, OSError) else cut(error)


def _names(record: Path, digest: str) -> bool:
    """Whether a file of `sha256sum` is about the bytes of this SHA-256."""
    return read_file(record).split()[:1] == [digest.encode()]


def config_of(weights: dict[str, Tensor], source: str) -> NetworkConfig:
    """The network of this project that has these weights.

    Args:
        weights: tensors by name, each in the shape of its parameter.
        source: where they come from, for the message.

    Raises:
        ValueError: they are of something else.
    """
    rows = {name: len(tensor) for name, tensor in weights.items() if tensor.dim() > 1}
    held = sum(tensor.numel() for tensor in weights.values())
    for network, told in _TOLD.items():
        blocks = sum(name.startswith("body.") and name.endswith(told.in_block) for name in rows)
        is_it = told.channels in rows and told.head_dim in rows
        if is_it and (blocks or network in WITHOUT_BLOCKS):
            channels, head_dim = rows[told.channels], rows[told.head_dim]
            # A tensor of 2**40 rows may hold no number. No network has fewer weights than this.
            squares = blocks + any(name.startswith(_CRITIC) for name in weights)
            if held < channels * max(squares * channels, head_dim):
                break
            read = weights.get(_FACTS)
            groups = () if read is None or read.dim() < 2 else groups_of_columns(read.shape[1])
            if groups is None:
                break
            return NetworkConfig(
                network=network, channels=channels, blocks=blocks, head_dim=head_dim, facts=groups
            )
    raise ValueError(
        f"{shown(source)} holds no policy of this project, or its columns do not tell which further facts it reads; "
        "give its run folder, where config.json names network and facts"
    )


def other_planes(weights: Mapping[str, Tensor], config: NetworkConfig) -> str:
    """How weights with another number of planes are made to fit; "" where they have those that there are.

    No file says which planes its weights were trained with, so nothing is filled in without being asked for.

    Args:
        weights: of a network of this project.
        config: that network.
    """
    name = _TOLD[config.network].channels if config.network in _TOLD else ""
    planes = weights[name].shape[1] if name in weights and weights[name].dim() > 1 else NUM_PLANES
    if planes == NUM_PLANES:
        return ""
    return (
        f"(it was trained with {planes} planes, here are {NUM_PLANES}): for each plane that is new in "
        f"chess_env.observation.PLANES insert a column of zeros into its {name}, which leaves the policy as it is, "
        "or train anew"
    )


def _what_differs(weights: dict[str, Tensor], source: str, own: NetworkConfig) -> str:
    """Both networks and the options that ask for that of the weights; "" where that is not the difference."""
    try:
        theirs = config_of(weights, source)
    except ValueError:
        return ""
    if _what_it_is(theirs) == _what_it_is(own):
        return ""
    return f"({_described(theirs)}, not {_described(own)}): give {options_of(theirs, own)}"


def _what_it_is(config: NetworkConfig) -> tuple[Any, ...]:
    return config.network, config.dimensions, config.facts


def _described(config: NetworkConfig) -> str:
    facts = f", facts {' and '.join(config.facts)}" if config.facts else ""
    return f"{config.network} of {', '.join(f'{k} {n}' for k, n in config.dimensions._asdict().items())}{facts}"


def options_of(config: NetworkConfig, instead_of: NetworkConfig) -> str:
    """Options of `chess-lab train` that make the second network the first.

    Args:
        config: the network that is wanted, one of this project's.
        instead_of: the one that a run without these options has.
    """
    wanted = config.dimensions
    own_numbers = (instead_of.channels, instead_of.blocks, instead_of.head_dim) != (None,) * 3
    sizes = [name for name, numbers in SIZES[config.network].items() if numbers == wanted]
    if own_numbers or not sizes:
        numbers = wanted._asdict().items()
        sized = "".join(f" --policy.{name.replace('_', '-')} {n}" for name, n in numbers)
    else:
        sized = "" if sizes[0] == instead_of.size else f" --policy.size {sizes[0]}"
    facts = f" --policy.facts {' '.join(config.facts)}" if config.facts else ""
    return f"--policy.network {config.network}{sized}{facts}"


def shipped_names() -> list[str]:
    """Names of the policies that come with the project."""
    return sorted(path.stem for path in SHIPPED.glob("*.safetensors"))
