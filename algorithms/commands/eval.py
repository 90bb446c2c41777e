"""`chess-lab eval`: how strong a policy is, in games, in single moves, in won endings, in puzzles and test suites."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from algorithms.commands.eval_end import end, stopped, write_figures
from algorithms.commands.eval_endings import play_endings
from algorithms.commands.eval_players import EvalPlayers
from algorithms.commands.eval_suites import add_suite_options, solve_suite, suite_fault
from algorithms.commands.parser import Parser, whole
from algorithms.commands.result_files import TRUST_HELP, cannot_write, try_path

if TYPE_CHECKING:
    from algorithms.evaluation.move_quality import MoveQuality
    from algorithms.reports.elo import JointElo
    from chess_env.matches.drawn_when_winning import DrawnWhenWinning
    from chess_env.matches.match_result import MatchResult

EXAMPLES = (
    "chess-lab eval warm --positions",
    "chess-lab eval example --puzzles lichess_db_puzzle.csv.zst --max-puzzles 10000",
    "chess-lab eval runs/mine --opponents random engine:nodes=1 --json found.json",
)
DEFAULT_GAMES = 200
DEFAULT_OPENINGS = "openings"
_WIDTH = 79
_NO_GAMES = {
    "--positions": "plays none",
    "--endings": "plays its own",
    "--puzzles": "plays none",
    "--epd": "plays none",
}
"""Measures in place of whole games, and what each does with games."""


def run(arguments: Sequence[str]) -> int:
    """Exit code: 0; 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP; 1 where a match or a file failed.

    Raises:
        UnwritableError: the file named by --json or --pgn cannot be written, found before any game.
    """
    parser, games = _parser()
    options = parser.parse_args(list(arguments))
    try:
        _check(options, games)
    except ValueError as error:
        return end(1, [str(error)])
    if options.positions:
        return _judge_positions(options)
    if options.endings:
        return play_endings(options, _temperature(options))
    if options.puzzles or options.epd:
        return solve_suite(options, _temperature(options))
    found: dict[str, MatchResult] = {}
    failed, code = stopped(lambda: _play(options, found))
    # Written before it is printed: the reader of the output may be gone.
    drawn = _drawn_when_winning(found)
    problems = write_figures(options, bool(found), lambda: _values(options, found, drawn, failed))
    if options.pgn is not None and found:
        try:
            _write_pgn(options, found)
        except OSError as error:
            problems.append(cannot_write("--pgn", options.pgn, error))
    if found:
        _print(options, found, drawn)
    return end(code, [failed, *problems])


def make_parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    return _parser()[0]


def _parser() -> tuple[Parser, argparse._ArgumentGroup]:
    """(the parser, those of its options that are of games alone and have None where they are not given)."""
    parser = Parser(
        prog="chess-lab eval",
        description="Plays game pairs (an opening twice, colours swapped) to the end by the rules, at most "
        "300 plies, without adjudication. Without --opponents a policy climbs a ladder of them: 20 games "
        "on a rung, up or down until the score passes one half, then --games on the two nearest to it. "
        "With --positions no games: single moves on the held-out table, in seconds. With --endings won "
        "endings alone. With --puzzles or --epd the puzzles or the test suite of a file.",
        epilog="OPPONENT: random, material, builtin, engine:nodes=N (Stockfish), any of them with "
        "@random=SHARE of random moves, policy:CHECKPOINT, or Stockfish held back by its options: "
        "engine:nodes=1,skill_level=0 or engine:movetime_ms=50,uci_elo=1350. docs/eval.md says what the "
        "figures mean.",
    )
    add = parser.add_argument
    add(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a run folder, a checkpoint in it, a .safetensors file, or a shipped policy: example, warm, "
        "warm_move_net",
    )
    add(
        "--positions",
        action="store_true",
        help="no games: regret, Win%% loss, accuracy, top-1/3/5 and pass@1/8 of single moves",
    )
    add(
        "--endings",
        action="store_true",
        help="instead of whole games: 50 positions each of KQ-K, KR-K, KRR-K, KQ-KR and KP-K, all won, against a "
        "random and an engine's defence",
    )
    add(
        "--temperature",
        type=float,
        action="append",
        metavar="T",
        help="draw moves at this temperature; 0, the default, plays the most probable move. With --positions "
        "beside the most probable move, may be repeated, and is the run's own (1 without a run) if not given",
    )
    add(
        "--seed",
        type=whole,
        default=0,
        help="of openings and players; with --positions of the bootstrap; with --endings of positions and players; "
        "with --puzzles and --epd of players (default 0)",
    )
    add("--device", default="auto", help="auto, cpu or cuda (default auto)")
    add(
        "--num-threads",
        type=whole,
        metavar="N",
        help="CPU threads of the network; the figures do not depend on it (default: as many as cores are idle)",
    )
    add("--trust", action="store_true", help=TRUST_HELP)
    add("--json", type=Path, metavar="FILE", help="write the figures")
    add_suite_options(parser)
    games = parser.add_argument_group("of whole games alone")
    add = games.add_argument
    add(
        "--opponents",
        nargs="+",
        metavar="OPPONENT",
        help="play these in full instead of the ladder",
    )
    add(
        "--games",
        type=whole,
        metavar="N",
        help=f"against one opponent; even (default {DEFAULT_GAMES})",
    )
    add(
        "--openings",
        metavar="SPEC",
        help="start positions: openings (the default, a book), random_plies:2-40, ...",
    )
    add("--pgn", type=Path, metavar="FILE", help="write every game")
    return parser, games


def _check(options: argparse.Namespace, games: argparse._ArgumentGroup) -> None:
    """Refuses what would fail after minutes of games; what is in the files stays until there are some.

    Raises:
        ValueError: names the option and what it may be.
        UnwritableError: the file named by --json or --pgn cannot be written.
    """
    temperatures = options.temperature or []
    asked = [flag for flag in _NO_GAMES if getattr(options, flag.removeprefix("--"))]
    if len(asked) > 1:
        raise ValueError(f"{asked[0]} and {asked[1]} are two measures: ask for one at a time")
    for action in games._group_actions if asked else ():  # argparse has no public list of them
        if getattr(options, action.dest) is not None:
            flag, mode = action.option_strings[0], f"{asked[0]} {_NO_GAMES[asked[0]]}"
            raise ValueError(f"{flag} is of games and {mode}: leave one of them out")
    if fault := suite_fault(options):
        raise ValueError(fault)
    if options.positions:
        for each in temperatures:
            if not (math.isfinite(each) and each >= 0):
                raise ValueError(
                    f"--temperature is {each}: expected a temperature of at least 0 (0 is greedy)"
                )
            if temperatures.count(each) > 1:
                raise ValueError(f"--temperature names {each:g} twice: give each once")
    elif len(temperatures) > 1:
        raise ValueError("--temperature is given more than once: games are played at one")
    options.games = DEFAULT_GAMES if options.games is None else options.games
    options.openings = DEFAULT_OPENINGS if options.openings is None else options.openings
    if options.games < 2 or options.games % 2:
        raise ValueError(f"--games is {options.games}: games come in pairs, give an even number")
    if options.seed < 0:
        raise ValueError(f"--seed is {options.seed}: expected at least 0")
    if repeated := {name for name in options.opponents or () if options.opponents.count(name) > 1}:
        raise ValueError(f"--opponents names {sorted(repeated)[0]!r} twice: give each once")
    if None not in (options.pgn, options.json) and options.pgn.resolve() == options.json.resolve():
        raise ValueError(f"--pgn and --json both name {str(options.pgn)!r}: give two files")
    try_path("--json", options.json)
    try_path("--pgn", options.pgn)


def _temperature(options: argparse.Namespace) -> float:
    """The one at which games are played; 0, greedy, where none was given."""
    return float(options.temperature[0]) if options.temperature else 0.0


def _play(options: argparse.Namespace, found: dict[str, MatchResult]) -> None:
    """Fills `found` with what was played, so that an error or a signal later loses nothing."""
    from chess_env.matches.arena import draw_openings
    from chess_env.positions.start_positions import make_start_positions

    openings = make_start_positions(options.openings)
    draw_openings(openings, options.seed, options.games // 2)  # too few: not after all the probes
    with closing(EvalPlayers(options, _temperature(options))) as players:
        _play_all(options, players, _announced(players, openings, options.seed, found), found)


def _play_all(
    options: argparse.Namespace,
    players: EvalPlayers,
    play: Callable[[str, int, int], MatchResult],
    found: dict[str, MatchResult],
) -> None:
    """Plays the opponents that were named, or climbs the ladder."""
    from algorithms.evaluation.strength import climb, rungs_here
    from chess_env.evaluators import find_stockfish

    pairs = options.games // 2
    if options.opponents is not None:
        for name in options.opponents:  # a wrong name should not come to light after minutes
            players.named(name)
        for name in options.opponents:
            found[name] = play(name, pairs, 0)
        return
    has_stockfish = find_stockfish() is not None
    if not has_stockfish:
        print("No Stockfish found: its rungs are left out of the ladder.", file=sys.stderr)
    climb(rungs_here(has_stockfish), play, pairs=pairs, found=found)


def _announced(
    players: EvalPlayers, openings: Any, seed: int, found: dict[str, MatchResult]
) -> Callable[[str, int, int], MatchResult]:
    """A function that plays some pairs against an opponent and says on stderr that it does.

    Where it is stopped it adds the pairs that were finished to `found`.
    """
    from chess_env.matches.arena import MATCH_PLIES, play_match

    def play(opponent: str, pairs: int, first_pair: int) -> MatchResult:
        print(f"playing {2 * pairs} games against {opponent} ...", file=sys.stderr)
        before = found.get(opponent)

        def keep(part: MatchResult) -> None:
            found[opponent] = part if before is None else before.joined(part)

        return play_match(
            players.evaluated,
            players.named(opponent),
            openings=openings,
            pairs=pairs,
            seed=seed,
            max_plies=MATCH_PLIES,
            first_pair=first_pair,
            before=before,
            keep=keep,
        )

    return play


def _drawn_when_winning(found: dict[str, MatchResult]) -> dict[str, DrawnWhenWinning]:
    """Games drawn when winning, by opponent. The built-in evaluator says so, with Stockfish and without."""
    from chess_env.evaluators import make_evaluator
    from chess_env.matches.drawn_when_winning import drawn_when_winning

    with closing(make_evaluator("builtin", num_engines=1)) as evaluator:
        return {name: drawn_when_winning(match, evaluator) for name, match in found.items()}


def _print(
    options: argparse.Namespace,
    found: dict[str, MatchResult],
    drawn: dict[str, DrawnWhenWinning],
) -> None:
    from algorithms.evaluation.strength import LADDER, table

    evaluated = next(iter(found.values())).first
    print(f"{evaluated}, openings {options.openings}, seed {options.seed}\n")
    order = [name for name in options.opponents or LADDER if name in found]
    print("\n".join(table({name: found[name] for name in order}, drawn)))
    rating = _joint_elo(found)
    if rating is not None:
        from algorithms.evaluation.limited_stockfish import SCALE

        said = f"Elo by {2 * rating.pairs} games against players with uci_elo: {rating}, {SCALE}."
        print("\n" + "\n".join(textwrap.wrap(said, _WIDTH)))


def _joint_elo(found: dict[str, MatchResult]) -> JointElo | None:
    """By the matches against opponents whose name gives them an Elo; None without one."""
    from algorithms.evaluation.limited_stockfish import label_of
    from algorithms.reports.elo import count_pairs, joint_elo

    labels = {name: label for name in found if (label := label_of(name)) is not None}
    counts = [count_pairs(found[name].pair_points()) for name in labels]
    return joint_elo(list(labels.values()), counts) if labels else None


def _values(
    options: argparse.Namespace,
    found: dict[str, MatchResult],
    drawn: dict[str, DrawnWhenWinning],
    failed: str,
) -> dict[str, Any]:
    from algorithms.evaluation.limited_stockfish import SCALE
    from algorithms.evaluation.strength import to_dict
    from chess_env.matches.arena import MATCH_PLIES

    rating = _joint_elo(found)
    return {
        "checkpoint": options.checkpoint,
        "temperature": _temperature(options),
        "openings": options.openings,
        "seed": options.seed,
        "max_plies": MATCH_PLIES,
        "error": failed,
        "opponents": [to_dict(name, match, drawn[name]) for name, match in found.items()],
        "joint_elo": None if rating is None else {**dataclasses.asdict(rating), "scale": SCALE},
    }


def _write_pgn(options: argparse.Namespace, found: dict[str, MatchResult]) -> None:
    from chess_env.matches.match_result import to_pgn

    with options.pgn.open("w", encoding="utf-8") as file:
        for match in found.values():
            file.writelines(to_pgn(match, f"chess-lab eval, seed {options.seed}"))


def _judge_positions(options: argparse.Namespace) -> int:
    """Exit code of --positions; prints how good the policy's single moves are on the held-out table."""
    from algorithms.reports.noise import load_noise

    measured: list[tuple[str, list[MoveQuality]]] = []
    failed, code = stopped(lambda: measured.append(_measure_positions(options)))
    values: dict[str, Any] = {
        "checkpoint": options.checkpoint, "seed": options.seed, "error": failed, "positions": [],
    }  # fmt: skip
    for evaluator_id, found in measured:
        noise = load_noise()
        values |= {
            "evaluator_id": evaluator_id,
            "noise": noise if noise["judge_id"] == evaluator_id else None,
            "positions": [quality.to_dict() for quality in found],
        }
    problems = write_figures(options, bool(measured), lambda: values)
    for evaluator_id, found in measured:
        _print_positions(options, evaluator_id, found)
    return end(code, [failed, *problems])


def _measure_positions(options: argparse.Namespace) -> tuple[str, list[MoveQuality]]:
    """(the evaluator of the table, what was found by slice, then way of choosing)."""
    import torch

    from algorithms.config.foreign import Trust
    from algorithms.evaluation.load_policy import load_policy, run_temperature, threads_of
    from algorithms.evaluation.move_quality import judge, policy_probs, uniform_probs
    from algorithms.evaluation.policy_player import GREEDY
    from algorithms.evaluation.regret import prepare_slice
    from algorithms.networks.build import choose_device
    from chess_env.positions.heldout import load_heldout

    torch.set_num_threads(threads_of(options.num_threads))
    device = choose_device(options.device)
    policy = load_policy(options.checkpoint, Trust(options.trust)).to(device)
    asked = options.temperature
    if asked is None:
        trained = run_temperature(options.checkpoint)
        asked = [1.0 if trained is None else trained]
    heldout, found = load_heldout(), []
    for name in heldout.slice_names:
        held = prepare_slice(heldout, name)
        for temperature in [GREEDY, *(value for value in asked if value != GREEDY)]:
            probs = policy_probs(policy, held, temperature=temperature, device=device)
            chooser = "greedy" if temperature == GREEDY else f"T={temperature:g}"
            found.append(
                judge(probs, held, chooser=chooser, temperature=temperature, seed=options.seed)
            )
        found.append(
            judge(uniform_probs(held), held, chooser="uniform", temperature=None, seed=options.seed)
        )
    return heldout.evaluator_id, found


def _print_positions(
    options: argparse.Namespace, evaluator_id: str, found: list[MoveQuality]
) -> None:
    from algorithms.evaluation.move_quality import evaluator_lines, table

    print(f"{options.checkpoint}, held-out positions, seed {options.seed}")
    print("\n".join(evaluator_lines(evaluator_id)))
    print("means over positions, 95 % intervals by bootstrap over them; entropy in nats\n")
    print("\n".join(table(found, evaluator_id)))
