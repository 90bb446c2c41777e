"""Files of games become shards, packed ones too, damaged ones as far as they go."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import zstandard

from algorithms import cli
from algorithms.pretraining import config as configuration
from algorithms.pretraining.config import PretrainConfig
from algorithms.pretraining.loop import pretrain
from algorithms.pretraining.pgn import games_in
from chess_env.positions.text_files import TextFile
from tests.commands.lab import chess_lab
from tests.pretraining.games import expected_moves, random_game, write_games
from tests.pretraining.runs import Quiet, tiny, tiny_labels


@pytest.fixture(scope="module")
def pgn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 games, every fourth of weaker players."""
    games = [
        random_game(seed, ratings=("1200", "2200") if seed % 4 == 0 else ("2000", "2200"))
        for seed in range(40)
    ]
    return write_games(tmp_path_factory.mktemp("pgn") / "games.pgn", games)


def from_games(run_dir: Path, path: Path, **changes: object) -> PretrainConfig:
    labels = tiny_labels(pgn=path, min_rating=1500, skip_plies=4, num_positions=10_000, **changes)
    return tiny(run_dir, labels=labels, target="played", total_steps=8)


def test_a_run_learns_from_games_and_keeps_what_it_found(pgn: Path, tmp_path: Path) -> None:
    display = Quiet()
    result = pretrain(from_games(tmp_path, pgn), display=display)
    games = [random_game(seed) for seed in range(40) if seed % 4]
    total = sum(len(expected_moves(game, 4)) for game in games)
    held_out = result.games["held_out"]
    assert result.labelled_positions == total - held_out and result.shards_made == -(-total // 64)
    assert (result.games["games"], result.games["used"], result.games["low_rated"]) == (40, 30, 10)
    assert any("games 40, used 30, low rated 10" in message for message in display.messages)
    again = pretrain(
        dataclasses.replace(from_games(tmp_path, pgn), total_steps=9), resume=True, display=display
    )
    assert again.shards_kept == result.shards_made and again.games == result.games


def test_the_command_takes_a_file_of_games(pgn: Path, tmp_path: Path) -> None:
    arguments = ["pretrain", "--smoke", f"--pgn={pgn}", "--min-rating", "1500", "--device", "cpu"]
    code, out, _ = chess_lab(*arguments, "--run-dir", tmp_path, "--total-steps", "10")
    assert code == 0 and "games of games.pgn, both players rated 1500 or more" in out
    found = configuration.load(tmp_path / "config.json")
    assert (found.target, found.labels.pgn, found.labels.min_rating) == ("played", pgn, 1500)


def test_reading_that_was_stopped_is_continued_to_the_same_shards(
    pgn: Path, tmp_path: Path
) -> None:
    pretrain(from_games(tmp_path / "whole", pgn), display=Quiet())
    whole = sorted((tmp_path / "whole" / "labels").glob("*.npz"))
    pretrain(from_games(tmp_path / "part", pgn), display=Quiet())
    part = sorted((tmp_path / "part" / "labels").glob("*.npz"))
    part[2].unlink()
    part[4].write_bytes(b"nonsense")
    config = dataclasses.replace(from_games(tmp_path / "part", pgn), total_steps=9)
    result = pretrain(config, resume=True, display=Quiet())
    assert result.shards_remade == 2
    assert [p.read_bytes() for p in part] == [p.read_bytes() for p in whole]


def test_the_number_of_positions_is_a_limit(pgn: Path, tmp_path: Path) -> None:
    config = from_games(tmp_path, pgn)
    labels = dataclasses.replace(config.labels, num_positions=100)
    result = pretrain(dataclasses.replace(config, labels=labels), display=Quiet())
    assert result.labelled_positions == 100 and result.games["games"] < 40


def texts(path: Path) -> tuple[list[str], str]:
    file = TextFile(path, "games")
    found = list(games_in(file))
    file.close()
    return found, file.ended_early


@pytest.mark.parametrize("frames", [1, 3])
def test_a_packed_file_gives_the_games_of_the_plain_one(
    pgn: Path, tmp_path: Path, frames: int
) -> None:
    raw, path = pgn.read_bytes(), tmp_path / "games.pgn.zst"
    step = -(-len(raw) // frames)
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)]
    path.write_bytes(b"".join(zstandard.compress(piece) for piece in pieces))
    assert texts(path) == texts(pgn) and len(texts(pgn)[0]) == 40


def test_a_packed_file_that_ends_early_is_used_as_far_as_it_goes(pgn: Path, tmp_path: Path) -> None:
    path = tmp_path / "games.pgn.zst"
    # Many small frames, so that much of the text can be unpacked before the cut.
    packer, raw = zstandard.ZstdCompressor(), pgn.read_bytes()
    packed = b"".join(packer.compress(raw[at : at + 2_000]) for at in range(0, len(raw), 2_000))
    path.write_bytes(packed[: len(packed) * 2 // 3])
    found, why = texts(path)
    assert why == "the .zst ends in the middle of a frame"
    assert 20 < len(found) < 40 and found[:-1] == texts(pgn)[0][: len(found) - 1]
    result = pretrain(from_games(tmp_path / "run", path), display=Quiet())
    assert result.games["ended_early"] == 1 and 10 < result.games["used"] < 30


def test_a_packed_file_damaged_in_the_middle_is_used_up_to_there(pgn: Path, tmp_path: Path) -> None:
    path, raw = tmp_path / "games.pgn.zst", pgn.read_bytes()
    first, second = zstandard.compress(raw[:8_000]), zstandard.compress(raw[8_000:])
    path.write_bytes(first + b"\xff" * 8 + second)
    found, why = texts(path)
    assert "the .zst is damaged" in why and "".join(found) == raw[:8_000].decode()


def interrupt_at_once(row: Mapping[str, float]) -> None:
    """Asks for a stop before the labels are made."""
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("at", [5, 40])
def test_a_stop_while_games_are_left_out_ends_the_command_as_a_stop(
    pgn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    seen = []

    def games(file: TextFile) -> Iterator[str]:
        for text in games_in(file):
            seen.append(text)
            if len(seen) == at:
                os.kill(os.getpid(), signal.SIGTERM)
            yield text

    monkeypatch.setattr("algorithms.pretraining.pgn.games_in", games)
    arguments = ["pretrain", "--smoke", f"--pgn={pgn}", "--min-rating", "3000", "--device", "cpu"]
    assert cli.main([*arguments, "--run-dir", str(tmp_path)]) == 143
    assert len(seen) == at


def test_after_an_error_of_the_labels_the_run_begins_with_the_settings_that_it_asks_for(
    pgn: Path, tmp_path: Path
) -> None:
    good = from_games(tmp_path, pgn)
    bad = dataclasses.replace(good, labels=dataclasses.replace(good.labels, min_rating=3_000))
    display = Quiet()
    with pytest.raises(ValueError, match="lower --min-rating"):
        pretrain(bad, display=display)
    assert any("can take a new run" in message for message in display.messages)
    # A run that was stopped before its labels came to nothing is given up as well.
    assert pretrain(bad, display=Quiet(interrupt_at_once)).stopped_by == "SIGTERM"
    with pytest.raises(ValueError, match="lower --min-rating"):
        pretrain(bad, resume=True, display=Quiet())
    assert pretrain(good, display=Quiet()).steps == 8


@pytest.mark.parametrize("below", ["", "labels"])
def test_a_file_in_the_place_of_the_labels_is_named_before_any_work(
    pgn: Path, tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").write_text("not a folder")
    config = from_games(tmp_path / "run", pgn, labels_dir=tmp_path / "file" / below)
    with pytest.raises(ValueError, match=r"file' is a file, a folder is needed; choose another"):
        pretrain(config, display=Quiet())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.pgn", b"", "\\(no game is in it\\): give another file"),
        ("g.pgn", b"\xff\xfe\x00 no games here", "holds no usable position"),
        ("g.pgn", str(random_game(1, ratings=("900", "900"))).encode(), "low rated 1"),
        ("g.pgn.zst", zstandard.compress(b"x")[:4] + b"\xff" * 20, "cannot be unpacked as .zst"),
        ("g.pgn", b"PK\x03\x04" + b"x" * 99, "is a .zip file: unpack it"),
        ("g.pgn", bytes(range(99)), "is no text file"),
        ("g.pgn", b"Dear reader,\n\nno game is here\n", "no game is in it"),
        ("g.pgn.zst", zstandard.compress(b"x" * 1_000)[:9], "ends in the middle of a frame"),
    ],
)
def test_a_file_without_a_usable_game_is_an_error(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        pretrain(from_games(tmp_path / "run", tmp_path / name), display=Quiet())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.pgn' cannot be read"):
        pretrain(from_games(tmp_path / "run", tmp_path / "nowhere.pgn"), display=Quiet())
    with pytest.raises(ValueError, match="cannot be read"):
        pretrain(from_games(tmp_path / "run", tmp_path), display=Quiet())


def test_a_file_that_has_changed_is_not_mixed_with_its_old_shards(
    pgn: Path, tmp_path: Path
) -> None:
    path = tmp_path / "g.pgn"
    path.write_bytes(pgn.read_bytes())
    pretrain(from_games(tmp_path / "run", path), display=Quiet())
    path.write_bytes(pgn.read_bytes() + b"\n")
    with pytest.raises(RuntimeError, match="holds other labels than asked for"):
        pretrain(from_games(tmp_path / "run", path), resume=True, display=Quiet())


def test_without_zstandard_a_packed_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    (tmp_path / "g.pgn.zst").write_bytes(zstandard.compress(b"1. e4"))
    with pytest.raises(ModuleNotFoundError, match=r'pip install -e "\.\[pgn\]"'):
        TextFile(tmp_path / "g.pgn.zst", "games")
