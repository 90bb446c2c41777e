"""The labels that a run learns from: opened, and made where they are missing.

An evaluator's labels are made on short walks from drawn starts, every legal move scored. Shard k is a pure function of
(source, evaluator, seed, sizes, k), so a run that was killed makes the shards that are missing and nothing else. Or
they are the moves played in a file of games.
"""

from __future__ import annotations

import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from algorithms.pretraining.config import LabelConfig
from algorithms.pretraining.display import PretrainDisplay
from algorithms.pretraining.label_files import LabelledPositions, ShardFolder
from algorithms.pretraining.pgn import GameCounts, read_positions
from algorithms.run_folder.atomic_files import RunFolderError, lock_folder
from algorithms.run_folder.stopping import Stop
from chess_env.evaluators import Evaluator, make_evaluator
from chess_env.evaluators.protocol import move_scores_of
from chess_env.positions.heldout import heldout_hashes
from chess_env.positions.start_positions import StartPositions, make_start_positions
from chess_env.positions.text_files import TextFile
from chess_env.rules.packed import Positions
from chess_env.rules.rules import (
    ONGOING,
    apply_batch,
    hash_batch,
    legal_actions_batch,
    status_batch,
)

BOARDS = 256
"""Walks side by side, at most; part of what a shard is a function of."""

_IDENTITY_DRAWS = 32


def walks_identity(
    config: LabelConfig, source: StartPositions, evaluator: Evaluator
) -> dict[str, Any]:
    """JSON values of everything that the content of a shard is a function of.

    A few draws of the source are part of it: a spec may name a file whose content changes.
    """
    rng = np.random.default_rng(config.label_seed)
    drawn = np.stack([source.sample(rng) for _ in range(_IDENTITY_DRAWS)])
    return {
        "kind": "evaluator",
        "start_positions": source.name,
        "start_positions_sha256": hashlib.sha256(drawn.tobytes()).hexdigest(),
        "evaluator": evaluator.id,
        "walk_plies": config.walk_plies,
        "random_move_fraction": config.random_move_fraction,
        "shard_size": config.shard_size,
        "label_seed": config.label_seed,
        "boards": BOARDS,
    }


def label_shard(
    config: LabelConfig,
    source: StartPositions,
    evaluator: Evaluator,
    index: int,
    report: Callable[[int], None],
    stopped: Callable[[], bool],
) -> LabelledPositions | None:
    """Shard `index`: `[shard_size]` positions with the scores of all their legal moves, centipawns.

    Forced moves are played on and not labelled: there is nothing to learn from them. A walk that
    meets the end of its game or a held-out position is replaced by a new start.

    Args:
        config: source, walks and sizes.
        source: of the starts.
        evaluator: scores the moves, and plays.
        index: of the shard.
        report: is given the number of its positions so far.
        stopped: asked before every ply; None is returned where it says True.
    """
    rng = np.random.default_rng([config.label_seed, index])
    # So few boards that a small shard still holds walks and not their starts alone.
    num_boards = max(1, min(BOARDS, config.shard_size // (config.walk_plies + 1)))
    boards = np.stack([source.sample(rng) for _ in range(num_boards)])
    plies = np.zeros(num_boards, np.int64)
    kept: list[Positions] = []
    scores: list[NDArray[np.int32]] = []
    while len(scores) < config.shard_size:
        if stopped():
            return None
        legal_ids, num_legal = legal_actions_batch(boards)
        move_scores = move_scores_of(evaluator, boards)
        free = np.flatnonzero(num_legal >= 2)
        kept.append(boards[free])
        scores += [move_scores[row] for row in free]
        report(min(len(scores), config.shard_size))
        slots = _choose(move_scores, config.random_move_fraction, rng)
        boards = apply_batch(boards, legal_ids[np.arange(num_boards), slots])
        plies += 1
        over = (plies > config.walk_plies) | ~_may_go_on(boards)
        for row in np.flatnonzero(over):
            boards[row], plies[row] = source.sample(rng), 0
    scores = scores[: config.shard_size]
    ends = np.cumsum([len(row) for row in scores])
    return LabelledPositions(
        positions=np.concatenate(kept)[: config.shard_size],
        offsets=np.concatenate([[0], ends]).astype(np.int32),
        child_score_cp=np.concatenate(scores).astype(np.int16),
        played=np.full(config.shard_size, -1, np.int16),
    )


def _choose(
    move_scores: list[NDArray[np.int32]], random_fraction: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """int64 `[N]` slots of the moves played: a random one, or one of the best, equal ones by lot."""
    draws = rng.random((len(move_scores), 2))
    slots = np.empty(len(move_scores), np.int64)
    for row, (scores, (which, where)) in enumerate(zip(move_scores, draws, strict=True)):
        among = np.arange(len(scores))
        if which >= random_fraction:
            among = np.flatnonzero(scores == scores.max())
        slots[row] = among[int(where * len(among))]
    return slots


def _may_go_on(boards: Positions) -> NDArray[np.bool_]:
    """bool `[N]`, True where the game goes on and the position is not held out."""
    held_out = np.fromiter(heldout_hashes(), np.uint64)
    ongoing: NDArray[np.bool_] = status_batch(boards) == ONGOING
    return ongoing & ~np.isin(hash_batch(boards), held_out)


_ENDS_BYTES = 2**20


@dataclasses.dataclass
class PgnLabels:
    """Positions of games, labelled by the move played.

    Where shards are missing the file is read from its beginning again: a packed file cannot be read
    from its middle.

    Attributes:
        config: the settings.
        path: of the PGN file.
        folder: where the shards are.
    """

    config: LabelConfig
    path: Path
    folder: ShardFolder

    @property
    def name(self) -> str:
        """The file and its filter."""
        return f"games of {self.path.name}, both players rated {self.config.min_rating} or more"

    def make(self, display: PretrainDisplay, stop: Stop) -> dict[str, int]:
        """Counts of shards `made`, `remade` and `kept`; ends early where a stop is asked for.

        Raises:
            ValueError: the file cannot be read, or holds no usable game.
        """
        indices = range(int(self.folder.notes.get("complete", 0)))
        states = [self.folder.state(index) for index in indices]
        if states and all(state == "intact" for state in states):
            counts = {"made": 0, "remade": 0, "kept": len(states)}
            games = GameCounts(**self.folder.notes["games"])
        else:
            with closing(TextFile(self.path, "games")) as file:
                games = GameCounts()
                with display.labelling("games, bytes", file.size_bytes) as bar:
                    made = self._read(file, games, bar.to, lambda: stop.name is not None)
            if made is None:
                return {"made": 0, "remade": 0, "kept": 0}
            counts = made
        display.say(f"games: {games.line()}")
        return counts

    def _read(
        self,
        file: TextFile,
        games: GameCounts,
        report: Callable[[int, str], None],
        stopped: Callable[[], bool],
    ) -> dict[str, int] | None:
        """Counts of shards; None where a stop was asked for."""
        counts = {"made": 0, "remade": 0, "kept": 0}
        size, most = self.config.shard_size, self.config.num_positions
        waiting: list[tuple[Positions, NDArray[np.int16]]] = []
        held = total = index = 0
        found = read_positions(
            file,
            min_rating=self.config.min_rating,
            skip_plies=self.config.skip_plies,
            counts=games,
        )
        for positions, played in found:
            if stopped():
                break
            positions, played = positions[: most - total], played[: most - total]
            if len(played):  # millions of games may give nothing
                waiting.append((positions, played))
            held, total = held + len(played), total + len(played)
            report(file.bytes_read, f"{total:,} positions")
            while held >= size:
                waiting, held = self._put(index, waiting, size, counts), held - size
                index += 1
            if total >= most:
                break
        if stopped():  # perhaps before the first usable position, which is no fault of the file
            return None
        if total == 0:
            remedy = (
                "lower --min-rating or --skip-plies" if games.low_rated else "lower --skip-plies"
            )
            raise ValueError(
                f"{self.path} holds no usable position ({games.line() or 'no game is in it'}"
                f"{'; ' + file.ended_early if file.ended_early else ''}): "
                f"{remedy + ', or ' if games.games else ''}give another file"
            )
        if held:
            self._put(index, waiting, held, counts)
            index += 1
        self.folder.note(complete=index, games=dataclasses.asdict(games))
        return counts

    def _put(
        self,
        index: int,
        waiting: list[tuple[Positions, NDArray[np.int16]]],
        size: int,
        counts: dict[str, int],
    ) -> list[tuple[Positions, NDArray[np.int16]]]:
        """What is left of the waiting positions after shard `index` has taken `size` of them."""
        positions = np.concatenate([rows for rows, _ in waiting])
        played = np.concatenate([moves for _, moves in waiting])
        state = self.folder.state(index)
        if state != "intact":
            shard = LabelledPositions(
                positions=positions[:size],
                offsets=np.zeros(size + 1, np.int32),
                child_score_cp=np.zeros(0, np.int16),
                played=played[:size],
            )
            self.folder.write(index, shard)
        counts[{"intact": "kept", "absent": "made", "damaged": "remade"}[state]] += 1
        return [(positions[size:], played[size:])]


def games_identity(config: LabelConfig, path: Path) -> dict[str, Any]:
    """JSON values of everything that the shards are a function of.

    The file is known by its size and its two ends: a hash of all of it would take minutes.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_ENDS_BYTES)
            file.seek(max(0, path.stat().st_size - _ENDS_BYTES))
            tail = file.read()
    except OSError as error:
        raise ValueError(
            f"games {str(path)!r} cannot be read ({error.strerror}): give a .pgn file, plain or packed"
        ) from error
    return {
        "kind": "pgn",
        "bytes": path.stat().st_size,
        "ends_sha256": hashlib.sha256(head + tail).hexdigest(),
        "min_rating": config.min_rating,
        "skip_plies": config.skip_plies,
        "shard_size": config.shard_size,
        "num_positions": config.num_positions,
    }


LOCK_POLL_S = 0.5


@dataclasses.dataclass
class EvaluatorLabels:
    """Positions from walks, their legal moves scored by an evaluator.

    Attributes:
        config: the settings.
        evaluator: scores the moves; the caller closes it.
        source: of the start positions of the walks.
        folder: where the shards are.
    """

    config: LabelConfig
    evaluator: Evaluator
    source: StartPositions
    folder: ShardFolder

    @property
    def name(self) -> str:
        """The evaluator's id."""
        return str(self.evaluator.id)

    def make(self, display: PretrainDisplay, stop: Stop) -> dict[str, int]:
        """Counts of shards `made`, `remade` and `kept`; ends early where a stop is asked for."""
        counts, size = {"made": 0, "remade": 0, "kept": 0}, self.config.shard_size
        with display.labelling("labelling positions", self.config.num_shards * size) as bar:
            for index in range(self.config.num_shards):
                state, before = self.folder.state(index), index * size
                if state == "intact":
                    counts["kept"] += 1
                    bar.to(before + size)
                    continue
                shard = label_shard(
                    self.config,
                    self.source,
                    self.evaluator,
                    index,
                    report=lambda done, before=before: bar.to(before + done),  # type: ignore[misc]
                    stopped=lambda: stop.name is not None,
                )
                if shard is None:
                    return counts
                self.folder.write(index, shard)
                counts["remade" if state == "damaged" else "made"] += 1
        return counts


Labels = EvaluatorLabels | PgnLabels


def sizes_of(labels: Labels) -> list[int]:
    """Positions in each shard that is learned from."""
    return labels.folder.sizes()[: labels.config.num_shards]


@contextmanager
def opened(config: LabelConfig, run_dir: Path) -> Iterator[Labels]:
    """The labels that `config` asks for; engines end with the block.

    Raises:
        ValueError: an unknown evaluator or source, a file of games that cannot be read, or a
            `labels_dir` that cannot be a folder.
        ShardError: the folder holds other labels.
    """
    folder = config.labels_dir or run_dir / "labels"
    _check_folder(folder, config.labels_dir)
    if config.pgn is not None:
        identity = games_identity(config, config.pgn)
        yield PgnLabels(config, config.pgn, ShardFolder(folder, identity))
        return
    evaluator = make_evaluator(config.evaluator, config.num_engines)
    try:
        source = make_start_positions(config.start_positions, evaluator=evaluator)
        identity = walks_identity(config, source, evaluator)
        yield EvaluatorLabels(config, evaluator, source, ShardFolder(folder, identity))
    finally:
        evaluator.close()


def _check_folder(folder: Path, labels_dir: Path | None) -> None:
    """Raises ValueError where a file stands in the way, before anything is made."""
    parents = () if labels_dir is None else folder.parents  # the run folder has a check of its own
    there = next((path for path in (folder, *parents) if path.exists()), folder)
    if there.exists() and not there.is_dir():
        raise ValueError(
            f"labels cannot be kept in {str(folder)!r}: {str(there)!r} is a file, a folder is "
            "needed; choose another --labels-dir"
        )


def prepare(found: Labels, display: PretrainDisplay, stop: Stop) -> dict[str, Any]:
    """The fields of `PretrainResult` that are about labels, after making what is missing.

    Where another process is making the same labels, it waits for that process.
    """
    began, counts = time.monotonic(), {"made": 0, "remade": 0, "kept": 0}
    folder = found.folder
    folder.folder.mkdir(parents=True, exist_ok=True)
    lock = _wait_for_lock(folder.folder, display, stop)
    if lock is not None:
        with lock:
            folder.reload()
            before = sum(sizes_of(found))
            counts = found.make(display, stop)
            spent, made = time.monotonic() - began, sum(sizes_of(found)) - before
        if counts["made"]:
            display.say(f"labelled {made:,} positions in {spent:.1f} s ({made / spent:,.0f}/s)")
    if counts["remade"]:
        display.say(f"WARNING: {counts['remade']} damaged shards of labels were made anew")
    return {
        "labels": found.name,
        "labelled_positions": sum(sizes_of(found)),
        "games": dataclasses.asdict(GameCounts(**folder.notes.get("games", {}))),
        **{f"shards_{name}": count for name, count in counts.items()},
        "label_s": time.monotonic() - began,
    }


def _wait_for_lock(folder: Path, display: PretrainDisplay, stop: Stop) -> IO[str] | None:
    """The folder's lock; None where a stop was asked for while another process held it."""
    said = False
    while stop.name is None:
        try:
            return lock_folder(folder)
        except RunFolderError as error:
            if not said:
                display.say(f"waiting for the labels: {error}")
            said = True
            time.sleep(LOCK_POLL_S)
    return None
