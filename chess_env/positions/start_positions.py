"""Where games start: seeded sources of legal, unfinished positions that are not in the held-out table.

A source is named by a spec, `make_start_positions(spec)`:

=========================  ==========================================================================
`initial`                  the initial position
`random_plies:LOW-HIGH`    LOW to HIGH uniformly random plies from the initial position (2-40)
`openings`                 a line of the opening book (`openings.py`), cut after its fourth ply or later
`phase_mix`                opening .33, middlegame .34, endgame .33 by `rules.phase_of`, with won and
                           decided positions on purpose (`phase_mix.py`)
`decided`                  one side is far ahead, up to a bare king against several queens
                           (`phase_mix.py`)
`bare_kings`               queen, rook, two rooks, two bishops or a pawn against a bare king
                           (`phase_mix.py`)
`fens:PATH`                a text file, one FEN or EPD a line (blank lines and lines of comments, # or ;, skipped)
`module:Name`              a class of your own with `sample(rng)`, made without arguments
`0.7*SPEC+0.3*SPEC`        a mixture: each position comes from the first source with a chance of .7
=========================  ==========================================================================

Behind any of them: `@balanced=CP` keeps positions whose score is within +-CP centipawns, and
`@fixed=K,seed=S` draws K distinct positions once (S: default 0) and then only samples among these. Two
conditions of an experiment on memorisation are one spec without and with `@fixed`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from chess_env.custom_objects import is_spec, make_object, meant, shown
from chess_env.evaluators import Evaluator
from chess_env.evaluators.protocol import scores_of
from chess_env.positions.heldout import is_heldout
from chess_env.positions.openings import opening_positions
from chess_env.positions.phase_mix import BareKings, DecidedPositions, PhaseMix
from chess_env.positions.text_files import TextFile
from chess_env.rules.fen import parse_fen
from chess_env.rules.packed import Positions
from chess_env.rules.rules import ONGOING, STATUS_NAMES, position_hash, random_walk, status_batch

MAX_TRIES = 10_000


def no_position(name: str, what: str) -> RuntimeError:
    """The error for a source that `MAX_TRIES` draws in a row could not satisfy."""
    return RuntimeError(
        f"start positions {shown(name)}: {MAX_TRIES} draws in a row gave no position {what}; "
        "loosen the filter, ask for fewer positions, or use another source"
    )


class PositionList:
    """A uniform draw from given positions (uint64 [K, 8]); the held-out table is the caller's business."""

    def __init__(self, name: str, positions: Positions) -> None:
        self.name = name
        self.positions = positions

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; one `integers` draw."""
        return self.positions[rng.integers(len(self.positions))].copy()


class Filtered:
    """The positions of another source that are accepted.

    Args:
        source: draws them.
        name: the spec.
        accepts: whether a position will do.
        what: is asked of a position, for the error, such as "outside the held-out table".
    """

    def __init__(
        self, source: Any, name: str, accepts: Callable[[Positions], bool], what: str
    ) -> None:
        self.name = name
        self._source, self._accepts, self._what = source, accepts, what

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8].

        Raises:
            RuntimeError: none of `MAX_TRIES` draws in a row was accepted.
        """
        for _ in range(MAX_TRIES):
            position = np.asarray(self._source.sample(rng))
            if self._accepts(position):
                return position
        raise no_position(self.name, self._what)


def not_heldout(source: Any, name: str) -> Filtered:
    """Another source without the positions of the held-out table; what is no position passes.

    It is checked where games start, with an error that says what gave it.
    """

    def is_free(position: Positions) -> bool:
        is_position = position.shape == (8,) and position.dtype == np.uint64
        return not (is_position and is_heldout(position))

    return Filtered(source, name, is_free, "outside the held-out table")


def balanced(source: Any, name: str, evaluator: Evaluator, limit_cp: int) -> Filtered:
    """Another source, only positions that the evaluator scores within +-`limit_cp` centipawns."""

    def is_balanced(position: Positions) -> bool:
        return abs(int(scores_of(evaluator, position[None])[0])) <= limit_cp

    what = f"with a score within +-{limit_cp} centipawns"
    return Filtered(source, name, is_balanced, what)


class Mixture:
    """Several sources; every position is drawn from one of them, chosen with the given shares.

    Args:
        name: the spec.
        sources: at least one.
        shares: their weights, above 0; only the ratios count.
    """

    def __init__(self, name: str, sources: list[Any], shares: list[float]) -> None:
        if not all(share > 0 for share in shares):
            raise ValueError(f"start_positions is {shown(name)}: shares must be above 0")
        self.name = name
        self._sources = sources
        self._up_to = np.cumsum(shares) / np.sum(shares)

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; one `random` draw for the source, then the source's own."""
        index = int(np.searchsorted(self._up_to[:-1], rng.random(), side="right"))
        return self._sources[index].sample(rng)


def distinct_positions(source: Any, rng: np.random.Generator, count: int) -> Positions:
    """uint64 [n, 8]: positions of a source, distinct by hash; fewer than `count` where it gives no more.

    That is after `MAX_TRIES` draws in a row without another one.
    """
    found: dict[int, Positions] = {}
    misses = 0
    while len(found) < count and misses < MAX_TRIES:
        position, known = source.sample(rng), len(found)
        found.setdefault(int(position_hash(position)), position)
        misses = misses + 1 if len(found) == known else 0
    return np.array(list(found.values()), np.uint64)


def fixed_set(source: Any, name: str, size: int, seed: int) -> PositionList:
    """A source over `size` positions, distinct by hash, drawn once from `source` with their own generator.

    Raises:
        RuntimeError: `MAX_TRIES` draws in a row gave no further position.
    """
    positions = distinct_positions(source, np.random.default_rng(seed), size)
    if len(positions) < size:
        raise no_position(name, f"beyond the first {len(positions)} of {size}")
    return PositionList(name, positions)


_FEN = re.compile(r"(\S+\s+[wb]\s+\S+?\s+[-a-h1-8]+)(?:\s+(\d+)(?:\s+(\d+))?)?(?=[\s;,|]|$)\s*(.*)")
_COMMENT_SIGNS = ("#", ";", "%", "//")
_QUOTED = re.compile(r'"[^"]*"?')


def read_fens(path: str | Path) -> Positions:
    """uint64 [K, 8]: the positions of a file with one FEN or EPD a line, without those of the held-out table.

    Of the operations of an EPD hmvc and fmvn give the clocks, and the others are passed over.

    Raises:
        ValueError: Unreadable file, an illegal or finished position (names the line), or nothing left.
    """
    path = Path(path)
    with closing(TextFile(path, "position file")) as file:
        lines = [line.strip(" \t\r\n\x1a\ufeff") for line in file]
        if file.ended_early:
            raise ValueError(f"position file {shown(str(path))}: {file.ended_early}")
    positions = [
        _position(_as_fen(line), f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line and not line.startswith(_COMMENT_SIGNS)
    ]
    positions = [position for position in positions if not is_heldout(position)]
    if not positions:
        raise ValueError(f"{path} holds no usable position: expected one FEN or EPD a line")
    return np.stack(positions)


def _as_fen(line: str) -> str:
    """The FEN in a line of a position file; the line itself where it is neither FEN nor EPD."""
    found = _FEN.fullmatch(line)
    if found is None:
        return line
    position, halfmove, fullmove, rest = found.groups()
    operations = [each.split() for each in _QUOTED.sub('""', rest).split(";")]
    # What stands there is an operation or a note; "moves e2e4 e7e5" would make it another position.
    first = next(iter(operations[0]), "#")
    if first == "moves" or not (first[0].isalpha() or first[0] in "#[|,"):
        return line
    clocks = {words[0]: words[1] for words in operations if len(words) == 2}
    halfmove, fullmove = clocks.get("hmvc", halfmove or "0"), clocks.get("fmvn", fullmove or "1")
    return f"{' '.join(position.split())} {halfmove} {fullmove}"


def _position(fen: str, where: str) -> Positions:
    """uint64 [8]: the position in a line."""
    try:
        position = parse_fen(fen)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    status = int(status_batch(position[None])[0])
    if status != ONGOING:
        raise ValueError(
            f"{where}: the game is already over in {fen!r} ({STATUS_NAMES[status]}); remove the line"
        )
    return position


INITIAL_FEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
MAX_RANDOM_PLIES = 1000
_WITH_COLON = ("random_plies", "fens")
_MODIFIERS = re.compile(r"(?P<base>.*)@(?P<pairs>(?:fixed|seed|balanced)=[^@]*)", re.DOTALL)
_SHARE = re.compile(r"(?:^|\+)(\d+\.?\d*|\.\d+)\*")
SPEC_HELP = (
    "expected 'initial', 'random_plies:2-40', 'openings', 'phase_mix', 'decided', 'bare_kings', 'fens:PATH' or "
    "'module:Name' of your own, with '@balanced=CP' or '@fixed=K,seed=S' behind it, a mixture such as "
    "'0.7*phase_mix+0.3*decided', or an object with sample(rng)"
)


@runtime_checkable
class StartPositions(Protocol):
    """A source of start positions.

    Attributes:
        name: The spec, for records and error messages.
    """

    name: str

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8], a packed position; all randomness comes from `rng`."""
        ...


class InitialPosition:
    """The initial position, always."""

    name = "initial"

    def __init__(self) -> None:
        self._position = parse_fen(INITIAL_FEN)

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; draws nothing."""
        return self._position.copy()


class RandomPlies:
    """Positions after `low` to `high` uniformly random plies from the initial position.

    The number of plies is drawn uniformly; games that end on the way and held-out positions are
    drawn again, number of plies included.
    """

    def __init__(self, low: int, high: int, *, exclude_heldout: bool = True) -> None:
        if not 0 <= low <= high <= MAX_RANDOM_PLIES:
            raise ValueError(
                f"random_plies is {low}-{high}: expected 0 <= LOW <= HIGH <= {MAX_RANDOM_PLIES}"
            )
        self.low, self.high = low, high
        self.name = f"random_plies:{low}-{high}"
        self._initial = parse_fen(INITIAL_FEN)
        self._exclude_heldout = exclude_heldout

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8].

        Raises:
            RuntimeError: `MAX_TRIES` walks in a row ended in a game that is over or in a held-out position.
        """
        for _ in range(MAX_TRIES):
            num_plies = int(rng.integers(self.low, self.high + 1))
            path = random_walk(self._initial, num_plies, rng)
            if len(path) <= num_plies or status_batch(path[-1:])[0] != ONGOING:
                continue
            if not (self._exclude_heldout and is_heldout(path[-1])):
                return path[-1].copy()
        raise no_position(self.name, "where the game is not over")


class Openings:
    """A line of the book, then a place to cut it after its fourth ply, each drawn uniformly."""

    name = "openings"

    def __init__(self) -> None:
        self._lines = [
            line[[not is_heldout(position) for position in line]] for line in opening_positions()
        ]

    def sample(self, rng: np.random.Generator) -> Positions:
        """uint64 [8]; two `integers` draws."""
        line = self._lines[rng.integers(len(self._lines))]
        return line[rng.integers(len(line))].copy()


_SOURCES = {"initial": InitialPosition, "openings": Openings}
_FILTERED = {"phase_mix": PhaseMix, "decided": DecidedPositions, "bare_kings": BareKings}


def _base_source(spec: str) -> Any:
    kind, colon, rest = spec.partition(":")
    if kind == "random_plies":
        low, dash, high = (rest if colon else "2-40").partition("-")
        if low.isdecimal() and (high.isdecimal() or not dash):
            return RandomPlies(int(low), int(high or low))
    elif kind == "fens" and rest:
        return PositionList(spec, read_fens(rest))
    elif spec in _SOURCES:
        return _SOURCES[spec]()
    elif spec in _FILTERED:
        return not_heldout(_FILTERED[spec](), spec)
    elif kind not in _WITH_COLON and is_spec(spec):
        return not_heldout(make_object(spec, "start_positions", ["sample"]), spec)
    near = meant(kind, (*_SOURCES, *_FILTERED, *_WITH_COLON))
    raise ValueError(f"start_positions is {shown(spec)}: {SPEC_HELP}{near}")


def _modifier_values(spec: str, pairs: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for pair in pairs.split(","):
        key, _, text = pair.partition("=")
        if key not in ("fixed", "seed", "balanced") or key in values or not text.isdecimal():
            raise ValueError(
                f"start_positions is {shown(spec)}, of which {shown(pair)} is wrong: {SPEC_HELP}"
            )
        values[key] = int(text)
    if values.get("fixed") == 0 or ("seed" in values and "fixed" not in values):
        raise ValueError(
            f"start_positions is {shown(spec)}: '@fixed=K,seed=S' needs K >= 1; {SPEC_HELP}"
        )
    return values


def mixture_parts(spec: str) -> list[tuple[float, str]]:
    """(share, spec) of each part of a mixture; empty where the spec is no mixture.

    Raises:
        ValueError: the first part has no share.
    """
    _, *parts = _SHARE.split(spec)
    if parts and not _SHARE.match(spec):
        raise ValueError(
            f"start_positions is {shown(spec)}: each part of a mixture needs its share; {SPEC_HELP}"
        )
    return [(float(share), part) for share, part in zip(parts[::2], parts[1::2], strict=True)]


def foreign_sources(spec: str) -> list[str]:
    """Every module:Name in a spec, without what stands behind it.

    Raises:
        ValueError: the first part of a mixture has no share.
    """
    parts = [part for _, part in mixture_parts(spec)] or [spec]
    named = [part for part in parts if ":" in part and part.partition(":")[0] not in _WITH_COLON]
    return [part.partition("@")[0] for part in named]


def needs_evaluator(spec: Any) -> bool:
    """Whether `make_start_positions` asks for an evaluator: where a part of a spec is "@balanced=CP"."""
    if not isinstance(spec, str):
        return False
    specs = [part for _, part in mixture_parts(spec)] or [spec]
    modified = [_MODIFIERS.fullmatch(part) for part in specs]
    return any("balanced" in _modifier_values(spec, found["pairs"]) for found in modified if found)


def make_start_positions(spec: Any, *, evaluator: Evaluator | None = None) -> StartPositions:
    """The source that a spec string names, or one over an object with `sample(rng)`.

    Args:
        spec: See the module's docstring.
        evaluator: Scores positions for "@balanced=CP".

    Raises:
        ValueError: Anything else; the message lists what is possible.
    """
    if not isinstance(spec, str):
        if isinstance(spec, StartPositions):
            return spec
        if callable(getattr(spec, "sample", None)):
            return not_heldout(spec, f"{type(spec).__name__} object")
        raise ValueError(f"start_positions is {shown(spec)}: {SPEC_HELP}")
    parts = mixture_parts(spec)
    if parts:
        sources = [make_start_positions(part, evaluator=evaluator) for _, part in parts]
        return Mixture(spec, sources, [share for share, _ in parts])
    modified = _MODIFIERS.fullmatch(spec)
    if modified is None:
        return _base_source(spec)
    values = _modifier_values(spec, modified["pairs"])
    source: Any = make_start_positions(modified["base"], evaluator=evaluator)
    if "balanced" in values:
        if evaluator is None:
            raise ValueError(
                f"start_positions is {shown(spec)}: '@balanced' needs an evaluator, and there is none; "
                "use evaluator='builtin' or 'stockfish:depth=4'"
            )
        source = balanced(source, spec, evaluator, values["balanced"])
    if "fixed" in values:
        source = fixed_set(source, spec, values["fixed"], values.get("seed", 0))
    return source
