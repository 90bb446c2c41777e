"""`chess-lab push`: the policy of a run, put on the Hugging Face Hub or into a folder for others."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from algorithms.commands.parser import Parser
from algorithms.commands.result_files import PLACE_HELP
from algorithms.run_folder.atomic_files import CONFIG_FILE, closed_object
from algorithms.run_folder.terminal import complain

EXAMPLES = (
    "chess-lab push runs/mine --to me/chess-grpo",
    "chess-lab push runs/mine/checkpoints/best --to ./shared/grpo",
)


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0, or 1 where nothing was pushed.

    Raises:
        ModuleNotFoundError: the Hub's library or torch is not installed.
    """
    options = make_parser().parse_args(list(arguments))
    from algorithms.commands.hub import folder_of, upload
    from algorithms.run_folder.bundle import BundleError, write_bundle
    from algorithms.run_folder.checkpoint import CheckpointError

    try:
        folder = folder_of(options.to)
        title = options.to if folder is None else folder.resolve().name
        contents = bundle_of(options.run, title, options.license)
        if folder is None:
            place = upload(options.to, contents, private=options.private)
        else:
            write_bundle(folder, contents)
            place = str(folder)
    except (BundleError, CheckpointError, ValueError) as error:
        complain("chess-lab push", error)
        return 1
    size_kb = sum(map(len, contents.values())) / 1000
    print(f"{len(contents)} files, {size_kb:,.0f} kB: {place}")
    print(f"next: chess-lab pull {options.to}")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab push",
        description="Puts the weights of a run's policy, its network's settings, a manifest with the "
        "SHA-256 of each file, and a model card made from the run's record where others can `chess-lab pull` "
        "them. Optimizer, record and paths stay here. The Hub needs a token: `hf auth login`, or HF_TOKEN.",
    )
    add = parser.add_argument
    add(
        "run",
        type=Path,
        metavar="RUN",
        help="a run folder (its newest intact checkpoint), or a checkpoint or snapshot in it",
    )
    add("--to", required=True, metavar="TARGET", help=f"{PLACE_HELP}; it is made")
    add("--private", action="store_true", help="make a new repository of the Hub a private one")
    add(
        "--license",
        default="gpl-3.0",
        metavar="ID",
        help="licence of the weights on the model card, by the Hub's name of it (default gpl-3.0)",
    )
    return parser


def bundle_of(source: Path, title: str, license_id: str) -> dict[str, bytes]:
    """The files that are pushed, by name.

    Args:
        source: a run folder, or a checkpoint or snapshot in it.
        title: what the model card calls the policy.
        license_id: of the weights.

    Raises:
        BundleError: it is no run, or its network is a user's own.
        CheckpointError: there is no intact checkpoint.
        ValueError: its config.json or its record cannot be read.
    """
    from algorithms.commands.model_card import model_card
    from algorithms.config.files import load_network, read_settings
    from algorithms.reports.run_files import read_run
    from algorithms.run_folder import checkpoint as saved
    from algorithms.run_folder.bundle import CARD_FILE, BundleError

    checkpoint, run_dir = source, source
    if (source / saved.MANIFEST_FILE).exists():
        checkpoint = source.resolve()
        run_dir = checkpoint.parent.parent
    of_run = checkpoint == run_dir or checkpoint in saved.directories(checkpoint.parent)
    if not (of_run and (run_dir / CONFIG_FILE).exists()):
        raise BundleError(
            f"{str(source)!r} is neither a run folder nor a checkpoint in one: give one that has a {CONFIG_FILE}"
        )
    policy = read_settings(run_dir / CONFIG_FILE).get("policy")
    named = str(policy.get("network", "")) if isinstance(policy, dict) else ""
    if ":" in named:
        raise BundleError(
            f"the network is {named!r}, code of your own that does not go along: share the run folder with that code"
        )
    network = load_network(run_dir / CONFIG_FILE)
    if checkpoint == run_dir:
        checkpoint = saved.load_newest(run_dir / "checkpoints").path
    card = model_card(
        read_run(run_dir),
        network.policy,
        update=saved.update_of(checkpoint),
        num_weights=sum(tensor.numel() for tensor in saved.load_weights(checkpoint).values()),
        title=title,
        license_id=license_id,
    )
    # What loads the weights, and no other setting: those may hold paths.
    settings = {
        "policy": dataclasses.asdict(network.policy),
        "precision": dataclasses.asdict(network.precision),
        "rollout": {"temperature": network.temperature},
    }
    contents = {
        CARD_FILE: card.encode(),
        CONFIG_FILE: closed_object(settings),
        saved.WEIGHTS_FILE: saved.read_verified(checkpoint / saved.WEIGHTS_FILE),
    }
    return {**contents, saved.MANIFEST_FILE: saved.manifest(contents)}
