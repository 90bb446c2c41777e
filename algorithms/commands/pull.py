"""`chess-lab pull`: a policy that somebody pushed, fetched and verified, ready to be played or trained on."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from algorithms.commands.parser import Parser
from algorithms.commands.result_files import PLACE_HELP
from algorithms.run_folder.terminal import complain

EXAMPLES = (
    "chess-lab pull somebody/chess-grpo",
    "chess-lab pull ./shared/grpo --out policies/grpo",
)


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0, or 1 where the policy was not fetched, and nothing was written.

    Raises:
        ModuleNotFoundError: the Hub's library or torch is not installed.
    """
    options = make_parser().parse_args(list(arguments))
    from algorithms.commands.hub import download, folder_of
    from algorithms.run_folder.bundle import BundleError, check_free, read_bundle, write_bundle

    try:
        folder = folder_of(options.source)
        out = options.out or Path(Path(options.source).expanduser().resolve().name)
        check_free(out)
        write_bundle(out, download(options.source) if folder is None else read_bundle(folder))
    except BundleError as error:
        complain("chess-lab pull", error)
        return 1
    print(f"{out}: every file is what its manifest says\nnext: chess-lab eval {out} --positions")
    print(f"{out}/README.md says what it is, and how to train from it")
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    parser = Parser(
        prog="chess-lab pull",
        description="Fetches a policy of `chess-lab push` and compares every file with the manifest. "
        "A file that is not of it, or differs, is refused, and nothing is written then.",
    )
    parser.add_argument("source", metavar="SOURCE", help=PLACE_HELP)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="a new folder (default: SOURCE's last part, here)",
    )
    return parser
