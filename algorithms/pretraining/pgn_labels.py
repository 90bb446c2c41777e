"""The moves of a file of games as labels: shards of positions and the moves played in them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.pretraining.config import LabelConfig
from algorithms.pretraining.console import PretrainDisplay
from algorithms.pretraining.pgn_games import GameCounts, read_positions
from algorithms.pretraining.pgn_text import PgnFile
from algorithms.pretraining.shards import LabelledPositions, ShardFolder
from algorithms.run_folder.stopping import Stop
from chess_env.rules.packed import Positions

_ENDS_BYTES = 2**20


@dataclasses.dataclass
class PgnLabels:
    """Positions of games, labelled by the move played; `Labels`.

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
        """See `Labels.make`.

        Raises:
            ValueError: the file cannot be read, or holds no usable game.
        """
        indices = range(int(self.folder.notes.get("complete", 0)))
        states = [self.folder.state(index) for index in indices]
        if states and all(state == "intact" for state in states):
            counts, games = {"made": 0, "remade": 0, "kept": len(states)}, self.games()
        else:
            with closing(PgnFile(self.path)) as file:
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
        file: PgnFile,
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
            raise ValueError(
                f"{self.path} holds no usable position ({games.line() or 'it is empty'}"
                f"{'; ' + file.ended_early if file.ended_early else ''}): lower --min-rating or "
                "--skip-plies, or give another file"
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

    def games(self) -> GameCounts:
        """Counts of games in the file, as the manifest keeps them."""
        return GameCounts(**self.folder.notes["games"]) if self.folder.notes else GameCounts()

    def sizes(self) -> list[int]:
        """See `Labels.sizes`."""
        return self.folder.sizes()


def identity_of(config: LabelConfig, path: Path) -> dict[str, Any]:
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
            f"games {str(path)!r} cannot be read ({error.strerror}): give a .pgn or .pgn.zst file"
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
