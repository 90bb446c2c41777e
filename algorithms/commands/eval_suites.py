"""`chess-lab eval --puzzles` and `--epd`: rated puzzles and test suites, solved by several players."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands.eval_end import end, stopped, write_figures
from algorithms.commands.eval_players import EvalPlayers
from algorithms.commands.parser import whole

if TYPE_CHECKING:
    from chess_env.games.players import Player

BATCH = 128
"""Puzzles that are solved in lockstep; Ctrl-C loses at most so many."""

DEFAULT_BESIDE = ("builtin",)
DEFAULT_LIMIT = "nodes=1"
_PROGRESS_S = 10.0
_WIDTH = 79


def add_suite_options(parser: argparse.ArgumentParser) -> None:
    """Adds the two measures to the command's parser, and the options that are theirs alone."""
    group = parser.add_argument_group("puzzles and test suites")
    add = group.add_argument
    add(
        "--puzzles",
        type=Path,
        metavar="FILE",
        help="instead of whole games: rated puzzles in Lichess's CSV, plain or packed (.zst, .gz, .bz2, .xz)",
    )
    add(
        "--epd",
        type=Path,
        metavar="FILE",
        help="instead of whole games: a test suite in EPD, one position a line with bm, am, dm or points (c8)",
    )
    add(
        "--max-puzzles",
        type=whole,
        metavar="N",
        help="stop after N puzzles that can be read (default: all)",
    )
    add(
        "--beside",
        nargs="*",
        metavar="PLAYER",
        help="players in the same table, named as opponents are (default: builtin, one ply deep)",
    )
    add(
        "--engine",
        action="append",
        metavar="COMMAND",
        help='a UCI engine in the same table, as "lc0 --weights=maia.pb"; may be repeated',
    )
    add(
        "--engine-limit",
        metavar="LIMIT",
        help=f"of its searches: nodes=N, depth=N or movetime_ms=N (default {DEFAULT_LIMIT})",
    )


def suite_fault(options: argparse.Namespace) -> str:
    """What is wrong with the options of puzzles and suites, and what to change; "" where nothing is."""
    theirs = {
        "--max-puzzles": options.max_puzzles,
        "--beside": options.beside,
        "--engine": options.engine,
        "--engine-limit": options.engine_limit,
    }
    if not (options.puzzles or options.epd):
        given = [flag for flag, value in theirs.items() if value is not None]
        return f"{given[0]} is of --puzzles and --epd: give one of them" if given else ""
    if options.max_puzzles is not None and options.epd:
        return "--max-puzzles is of --puzzles and an EPD suite is taken whole: leave it out"
    if options.max_puzzles is not None and options.max_puzzles < 1:
        return f"--max-puzzles is {options.max_puzzles}: expected at least 1"
    if options.engine_limit is not None:
        if not options.engine:
            return "--engine-limit is of --engine: name an engine too"
        from algorithms.evaluation.uci_player import checked_limit

        try:
            checked_limit(options.engine_limit)
        except ValueError as error:
            return f"--engine-{error}"
    for flag, names in (("--beside", options.beside or []), ("--engine", options.engine or [])):
        if repeated := {name for name in names if names.count(name) > 1}:
            return f"{flag} names {sorted(repeated)[0]!r} twice: give each once"
    return ""


class _Suite:
    """A file of puzzles or of EPD positions, with how it is solved and what was found.

    Attributes:
        path: of the file.
        file: that is read.
        noun: what its lines hold.
        measure: the module that solves them, counts, and writes the table.
        names: of the players, in the order of the table.
        tally: what they solved; None before they are known.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        from algorithms.evaluation import epd_suites, puzzles
        from chess_env.positions.epd_suites import EpdFile
        from chess_env.positions.puzzles import PuzzleFile

        self.path: Path = options.puzzles or options.epd
        self.names: list[str] = []
        self._plays: list[str] = []
        self.file: Any
        self.measure: Any
        self.tally: Any = None
        self._new_tally: Any
        if options.puzzles:
            self.noun, self.measure, self._new_tally = "puzzles", puzzles, puzzles.PuzzleTally
            self.file = PuzzleFile(self.path)
            self._batches = self.file.batches(BATCH, options.max_puzzles)
            self._left_out = {"cannot be read": self.file.left_out}
            self._expected = "lines PuzzleId,FEN,Moves,Rating,... as in Lichess's file of puzzles"
        else:
            self.noun, self.measure, self._new_tally = "positions", epd_suites, epd_suites.EpdTally
            self.file = EpdFile(self.path)
            self._batches = self.file.batches(BATCH)
            self._left_out = {
                "cannot be read": self.file.left_out,
                "cannot be judged": self.file.not_judged,
            }
            self._expected = "lines such as '8/8/8/8/8/4k3/8/4K2R w K - bm O-O;'"

    def solve(self, players: dict[str, Any], seed: int) -> None:
        """Solves the file by all players, batch by batch; `tally` has what was finished.

        Raises:
            ValueError: the file has nothing that can be judged.
        """
        self.names, self.tally = list(players), self._new_tally(len(players))
        self._plays = [player.name for player in players.values()]
        said = time.monotonic()
        for batch in self._batches:
            found = [self.measure.solve(player, batch, seed=seed) for player in players.values()]
            self.tally.add(batch, found)
            if time.monotonic() - said > _PROGRESS_S:
                said = time.monotonic()
                print(f"solved {self.tally.total:,} {self.noun} so far ...", file=sys.stderr)
        if not self.tally.total:
            why = [
                f"; lines that {what}: {each.total:,} ({each.summary()}), such as line {each.first[0].number:,}: "
                f"{each.first[0].reason}"
                for what, each in self._left_out.items()
                if each.total
            ]
            ended = self.file.text.ended_early
            raise ValueError(
                f"{str(self.path)!r} holds no {self.noun} that can be judged: expected {self._expected}"
                f"{''.join(why)}{'; ' + ended if ended else ''}"
            )

    def notes(self) -> list[str]:
        """Lines of at most 79 columns on what was left out."""
        notes = []
        for what, left_out in self._left_out.items():
            if left_out.total:
                notes.append(f"lines that {what}: {left_out.total:,} ({left_out.summary()})")
                notes += [f"  line {line.number:,}: {line.reason}" for line in left_out.first]
        if self.file.text.ended_early:
            notes.append(f"The file could not be read to its end: {self.file.text.ended_early}")
        wrapped = [
            textwrap.wrap(note, _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
            for note in notes
        ]
        return [line for lines in wrapped for line in lines]

    def to_dict(self) -> dict[str, Any]:
        """Plain values of the file and of what was found."""
        return {
            "file": str(self.path),
            self.noun: 0 if self.tally is None else self.tally.total,
            "ended_early": self.file.text.ended_early,
            **{
                f"lines_that_{what.replace(' ', '_')}": left_out.to_dict()
                for what, left_out in self._left_out.items()
            },
            "players": self._players(),
        }

    def _players(self) -> list[dict[str, Any]]:
        if self.tally is None or not self.tally.total:
            return []
        found = self.measure.to_dict(self.names, self.tally)
        return [{"plays": plays, **each} for plays, each in zip(self._plays, found, strict=True)]


def solve_suite(options: argparse.Namespace, temperature: float) -> int:
    """Exit code of --puzzles and --epd; prints and writes what was solved, also after an error or a signal."""
    suites: list[_Suite] = []

    def solve() -> None:
        suites.append(_Suite(options))
        with closing(suites[0].file):
            _solve(options, temperature, suites[0])

    failed, code = stopped(solve)
    found = any(suite.tally is not None and suite.tally.total > 0 for suite in suites)

    def values() -> dict[str, Any]:
        return {
            "checkpoint": options.checkpoint,
            "temperature": temperature,
            "seed": options.seed,
            "error": failed,
            **(suites[0].to_dict() if suites else {}),
        }

    problems = write_figures(options, found, values)
    if found:
        _print(options, suites[0])
    return end(code, [failed, *problems])


def _solve(options: argparse.Namespace, temperature: float, suite: _Suite) -> None:
    with closing(EvalPlayers(options, temperature)) as makers:
        players: dict[str, Player] = {makers.evaluated.name: makers.evaluated}
        for name in DEFAULT_BESIDE if options.beside is None else options.beside:
            players[name] = makers.named(name)
        limit = options.engine_limit or DEFAULT_LIMIT
        for command in options.engine or ():
            engine = makers.engine(command, limit)
            players[engine.name] = engine
        suite.solve(players, options.seed)


def _print(options: argparse.Namespace, suite: _Suite) -> None:
    print(f"{suite.path}, {suite.tally.total:,} {suite.noun}, seed {options.seed}")
    print(f"{suite.measure.TITLE}\n")
    print("\n".join(suite.measure.table(suite.names, suite.tally)))
    if notes := suite.notes():
        print("\n".join(["", *notes]))
