"""The parser of every command: the standard library's, which here understands what is nearly right.

A flag may be written by its end alone (`--ent-coef` for `--regularizer.ent-coef`), in capitals and with underscores.
What it cannot understand it refuses, and names what was probably meant.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from algorithms.core.checks import canonical, nearest
from algorithms.run_folder.terminal import complain

NEGATIVE = re.compile(r"-\.?\d.*|-inf|-nan")
"""A word that is a number and no flag; argparse's own pattern has no exponent before Python 3.14."""

ALSO_CALLED = {"lr": "learning-rate"}
"""Ends of flags that everybody knows under another name, which is understood."""

MEANT = {
    "autocast": "amp use-amp",
    "autocast-dtype bfloat16": "bf16",
    "autocast-dtype float16": "fp16 half",
    "blocks": "depth layers n-layers num-layers",
    "budget-moves": "max-steps moves num-steps steps timesteps total-steps total-timesteps",
    "channels": "d-model hidden-dim hidden-size width",
    "checkpoint-interval-updates": "save-every save-freq",
    "clip-range": "clip clip-eps clip-epsilon cliprange eps-clip epsilon",
    "device cpu": "no-cuda no-gpu",
    "device cuda": "gpu use-cuda",
    "ent-coef": "entropy entropy-bonus entropy-coef entropy-coeff entropy-weight",
    "eval-interval-updates": "eval-every eval-freq",
    "evaluator": "engine stockfish",
    "gae-lambda": "lam lambda",
    "gamma": "discount",
    "grid": "batch-size clip-range group-size learning-rate lr minibatch-size num-envs temperature",
    "group-size": "g n-samples num-generations num-samples samples",
    "init-from": "checkpoint load load-from pretrained weights",
    "kl-ref-coef": "beta kl-beta kl-penalty",
    "learning-rate": "adam-lr step-size",
    "max-grad-norm": "clip-grad grad-clip gradient-clipping",
    "minibatch-size": "batch-size mini-batch-size",
    "network": "model net",
    "num-engines": "num-workers workers",
    "num-envs": "boards envs n-envs",
    "num-plies": "horizon n-steps num-steps rollout-length",
    "num-threads": "threads",
    "preset strong": "strong",
    "resume": "continue restart",
    "run-dir": "dir exp-name folder log-dir logdir name out output output-dir run-name save-dir save-path",
    "smoke": "debug dry-run fast quick test",
    "temperature": "temp",
    "total-moves": "budget max-steps moves n-steps num-steps steps timesteps total-steps total-timesteps",
    "track": "log logger",
    "track tensorboard": "tb",
    "track wandb": "use-wandb wandb-project",
    "update-epochs": "epochs n-epochs num-epochs",
}
"""The end of a flag of ours, perhaps with a value -> what it is called elsewhere: it is suggested, not understood."""

ON_OR_OFF = ("true", "false", "yes", "no", "on", "off", "1", "0")


class Parser(argparse.ArgumentParser):
    """A parser of options whose errors are in lines of at most 80 columns and name what was meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = NEGATIVE

    def error(self, message: str) -> NoReturn:
        """Prints the error, and ends the process with code 2."""
        complain(self.prog, f"{message}\n`{self.prog} --help` lists the options.")
        self.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As of the base class; a value that is no choice is answered with the nearest one."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            near = nearest(str(value), map(str, action.choices or ()), cutoff=0.4)
            error.message += f"; did you mean {near!r}?" if near else ""
            raise

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of the base class, after the flags were given their whole names."""
        words = sys.argv[1:] if args is None else args
        return super().parse_known_args([self._whole(word) for word in words], namespace)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As of the base class; a flag that is none is answered with what is near to it."""
        found, rest = self.parse_known_args(args, namespace)
        if rest:
            self.error(self._not_understood(rest))
        return found

    def parse_intermixed_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As `parse_args`, with options between the names."""
        found, rest = self.parse_known_intermixed_args(args, namespace)
        if rest:
            self.error(self._not_understood(rest))
        return found

    def flags(self) -> dict[str, argparse.Action]:
        """{flag: its option} of this parser and its subcommands."""
        found: dict[str, argparse.Action] = {}
        for action in self._actions:  # argparse has no public list of them
            found |= {flag: action for flag in action.option_strings if flag.startswith("--")}
            if isinstance(action, argparse._SubParsersAction):
                for sub in action.choices.values():
                    found |= sub.flags()
        return found

    def _whole(self, word: str) -> str:
        """The word with the whole name of its flag, where it is one flag's end."""
        if not word.startswith("--"):
            return word
        flag, equals, value = word.partition("=")
        found = flags_ending_in(flag, self._option_string_actions)
        if equals and len(found) == 1 and self._option_string_actions[found[0]].nargs == 0:
            self.error(f"{found[0]} is a switch and takes no value: leave {equals + value!r} out")
        if len(found) > 1:
            self.error(f"{flag} may be {' or '.join(found)}: give one of them")
        return (found[0] if found else _plain(flag)) + equals + value

    def _not_understood(self, rest: Sequence[str]) -> str:
        flags = self.flags()
        flag = next((word for word in rest if word.startswith("-")), "")
        meant = meant_by(flag, flags) if flag else ""
        if rest[0].casefold() in ON_OR_OFF:
            meant = f"a switch takes no value: leave {rest[0]!r} out"
        return f"unrecognized arguments: {' '.join(rest)}" + (f"; {meant}" if meant else "")


def flags_ending_in(flag: str, flags: Iterable[str]) -> list[str]:
    """The flags that a word may stand for: the one that it is, or those that end in it behind a dot or a dash.

    `--preflight` is no end of `--no-preflight`, which says the contrary.
    """
    plain, flags = _plain(flag), list(flags)
    if plain in flags:
        return [plain]
    end = plain.removeprefix("--")
    end = ALSO_CALLED.get(end, end)
    if not end:
        return []
    found = []
    for each in flags:
        field = each.removeprefix("--").rpartition(".")[2]
        contrary = field.startswith("no-") and not end.endswith(field)
        if each.endswith((f".{end}", f"-{end}")) and each.startswith("--") and not contrary:
            found.append(each)
    return found


def _plain(flag: str) -> str:
    return flag.casefold().replace("_", "-")


def meant_by(flag: str, flags: dict[str, argparse.Action]) -> str:
    """A sentence on what a flag that is none of `flags` was probably meant to be; empty where nothing is near."""
    name = _plain(flag.partition("=")[0]).lstrip("-")
    plain = f"--{name}"
    positive = f"--{name.removeprefix('no-')}"
    for each in flags:
        if each.replace("no-", "") == plain or (
            not name.startswith("no-") and f"no-{name}" == each[2:]
        ):
            return f"{plain} is on without a flag, and {each} turns it off"
    suggested = [] if flag.startswith("--") else flags_ending_in(plain, flags)
    for ours_and_value, theirs in MEANT.items():
        end, _, value = ours_and_value.partition(" ")
        if name in theirs.split():
            suggested += [f"{each} {value}".strip() for each in flags_ending_in(f"--{end}", flags)]
    if not suggested and name.startswith("no-"):
        if ours := flags_ending_in(positive, flags):
            return f"leave {' or '.join(ours)} out"
        if meant := meant_by(positive, flags):
            return f"it is off unless it is asked for, as in {meant.removeprefix('did you mean ')[:-1]}"
    for each, action in flags.items():
        suggested += [f"{each} {c}" for c in action.choices or () if str(c).casefold() == name]
    if not suggested and "." in name:  # another section's
        suggested = flags_ending_in(f"--{name.rpartition('.')[2]}", flags)
    if not suggested:
        parts = set(name.split("-"))
        suggested = [each for each in flags if parts <= set(each[2:].replace(".", "-").split("-"))]
    if not suggested:
        ends = {each[2:].rpartition(".")[2]: each for each in flags}
        near = difflib.get_close_matches(name, [*ends, *(each[2:] for each in flags)], 1)
        suggested = [ends.get(each, f"--{each}") for each in near]
    return f"did you mean {' or '.join(suggested[:3])}?" if suggested else ""


def whole(text: str) -> int:
    """The whole number that a text means, which may be written as 100000, 100_000 or 1e5."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    # Above this a float no longer holds every whole number.
    if not number.is_integer() or abs(number) > 2**53:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no whole number: give one such as 100000 or 1e5"
        )
    return int(number)


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A type of option: one of some names, in capitals or not."""

    def name(text: str) -> str:
        found = canonical(text, choices)
        if found is None:
            near = nearest(text, choices)
            meant = f"; did you mean {near!r}?" if near else ""
            listed = ", ".join(map(repr, choices))
            raise argparse.ArgumentTypeError(f"{text!r} is none of {listed}{meant}")
        return found

    return name
