"""`chess-lab push` and `chess-lab pull`: with folders, and with the Hub's real library against a server made here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from algorithms.config.files import load_network
from algorithms.evaluation.load_policy import load_policy, run_temperature
from algorithms.networks.build import initialise
from algorithms.run_folder.bundle import FILES, read_bundle
from algorithms.run_folder.checkpoint import MANIFEST_FILE, closed, manifest
from tests.commands.fake_hub import OWN, TOKEN, FakeHub, running
from tests.commands.lab import chess_lab, evaluate
from tests.evaluation.policies import SMALL, saved_run, small_policy
from tests.run_folder.test_full_disk import files_up_to

ALL = {*FILES, MANIFEST_FILE}
ROW = {
    "step": 1, "scored_moves": 2048, "eval/regret_cp": 301.25, "eval/regret_cp_greedy": 250.0,
    "eval/entropy": 2.5, "eval/endgame/regret_cp": 99.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose settings and record name paths of this machine."""
    folder = tmp_path_factory.mktemp("home") / "mine"
    saved_run(folder, seed=3)
    later = {"step": 2, "scored_moves": 9999, "eval/regret_cp": 1.0}
    (folder / "metrics.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(later)}\n")
    environment = {
        "evaluator": "stockfish-17;net=nn-1;Hash=1;Threads=1;depth=4;pure;v1",
        "command": ["chess-lab", "train", "--run-dir", str(folder)],
        "git": {"commit": "abcdef" * 7, "dirty": False},
    }
    (folder / "environment.json").write_text(json.dumps(environment))
    return folder


@pytest.fixture(scope="module")
def pushed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which that run was pushed."""
    folder = tmp_path_factory.mktemp("shared") / "grpo"
    assert chess_lab("push", run, "--to", folder).code == 0
    return folder


@pytest.fixture
def source(pushed: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(pushed, tmp_path / "source"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A Hub of this machine, of which the library knows, with a token."""
    with running() as server:
        # What the library makes of HF_ENDPOINT when it is imported.
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, server.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "ENDPOINT", server.address)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        # The server speaks the older way for large files, which the library takes without Xet.
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no_token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server


@pytest.fixture
def shared(hub: FakeHub, pushed: Path) -> dict[str, bytes]:
    """The files of the repository me/grpo, which holds that policy."""
    files = {path.name: path.read_bytes() for path in pushed.iterdir()}
    hub.repos["me/grpo"] = {OWN: b"", **files}
    return hub.repos["me/grpo"]


def refused(source: object, out: Path) -> str:
    """What `chess-lab pull` says of a source; it wrote nothing."""
    before = sorted(out.parent.rglob("*"))
    code, said, error = chess_lab("pull", source, "--out", out)
    assert (code, said) == (1, "") and error.startswith("chess-lab pull: ")
    assert sorted(out.parent.rglob("*")) == before
    return error


def test_a_folder_gets_weights_settings_card_and_manifest_and_nothing_else(pushed: Path) -> None:
    assert {path.name for path in pushed.iterdir()} == ALL
    settings = json.loads((pushed / "config.json").read_text())
    assert set(settings) == {"sha256", "policy", "precision", "rollout"}
    assert b"optimizer" not in (pushed / "model.safetensors").read_bytes()


def test_no_file_names_a_path_of_the_machine_that_trained(run: Path, pushed: Path) -> None:
    for path in pushed.iterdir():
        assert str(run.parent).encode() not in path.read_bytes()


def test_a_path_in_a_setting_does_not_come_onto_the_card(tmp_path: Path) -> None:
    from algorithms.config.run import EnvConfig

    env = EnvConfig(evaluator="my_part:Judge,file=/home/me/My Games/a.bin")
    folder = saved_run(tmp_path / "own", 0, env=env, init_from="/home/me/secret")
    (folder / "metrics.jsonl").write_text(json.dumps(ROW) + "\n")
    assert chess_lab("push", folder, "--to", tmp_path / "out").code == 0
    card = (tmp_path / "out" / "README.md").read_text()
    assert "my_part:Judge,file=FILE" in card and "those of another policy of the owner" in card
    assert not any(word in card for word in ("home", "secret", "Games", "a.bin"))


def test_the_card_says_what_the_record_says_at_the_checkpoint_and_not_after_it(
    pushed: Path,
) -> None:
    card = (pushed / "README.md").read_text()
    assert card.startswith("---\nlicense: gpl-3.0\n")
    assert "| random_2_40 | 301.25 | 250 | 2.50 |" in card
    assert "| endgame | 99.50 | not recorded | not recorded |" in card
    assert "| scored moves | 2,048, in 1 updates |" in card and "9,999" not in card
    assert "Stockfish 17, depth 4; id `stockfish-17;" in card
    assert "Judge: Stockfish 15.1, depth 8 (`stockfish-15.1;" in card
    assert "| seed | 0 |" in card and "| commit of the project | abcdefabcdef |" in card
    assert "algorithm | grpo, group_size 8" in card
    assert all(
        f"\n## {part}\n" in card
        for part in ("How to load it", "Licence", "What this does not cover")
    )


def test_the_command_of_the_card_asks_for_the_network_of_the_weights(pushed: Path) -> None:
    card = (pushed / "README.md").read_text()
    (line,) = (line for line in card.splitlines() if "--init-from" in line)
    options = "--policy.network resnet --policy.channels 8 --policy.blocks 1 --policy.head-dim 8"
    assert line == f"chess-lab train grpo --init-from grpo {options}"


def test_a_pulled_policy_is_the_one_of_the_run_for_eval_and_init_from(
    run: Path, pushed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "got"
    code, said, _ = chess_lab("pull", pushed, "--out", out)
    assert code == 0 and f"chess-lab eval {out}" in said
    theirs, ours = load_policy(str(out)).state_dict(), load_policy(str(run)).state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    fresh = small_policy(5, SMALL)
    initialise(fresh, str(out))
    assert all(torch.equal(tensor, ours[name]) for name, tensor in fresh.state_dict().items())
    found = tmp_path / "found.json"
    assert evaluate(out, "--opponents", "random", "--games", 2, "--json", found).code == 0
    assert json.loads(found.read_text())["checkpoint"] == str(out)


def test_a_pulled_policy_keeps_its_settings_wherever_it_lies(pushed: Path, tmp_path: Path) -> None:
    """Two folders up is another run's config.json, which is not asked."""
    (tmp_path / "config.json").write_text("no settings")
    (tmp_path / "a").mkdir()
    assert chess_lab("pull", pushed, "--out", tmp_path / "a" / "b").code == 0
    assert load_policy(str(tmp_path / "a" / "b")).config == SMALL
    assert run_temperature(str(tmp_path / "a" / "b")) == 1.0
    assert load_network(tmp_path / "a" / "b" / "config.json").policy == SMALL


def test_a_checkpoint_of_a_run_is_pushed_by_its_own_path(run: Path, tmp_path: Path) -> None:
    assert chess_lab("push", run / "checkpoints" / "best", "--to", tmp_path / "best").code == 0
    assert read_bundle(tmp_path / "best").keys() == ALL


@pytest.mark.parametrize("command", ["push", "pull"])
def test_a_folder_that_holds_something_is_left_as_it_is(
    command: str, run: Path, pushed: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("kept")
    words = ["push", run, "--to"] if command == "push" else ["pull", pushed, "--out"]
    for taken in (tmp_path, tmp_path / "mine"):
        code, _, error = chess_lab(*words, taken)
        assert code == 1 and "exists already and is left as it is" in error
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("place", ["grpo", "a/b/c", "user/na me", "https:me/x"])
def test_a_place_that_is_neither_folder_nor_repository_is_refused(
    place: str, run: Path, tmp_path: Path
) -> None:
    assert "names no place: give user/name" in chess_lab("push", run, "--to", place).err
    assert "names no place: give user/name" in refused(place, tmp_path / "out")


def test_what_is_no_run_is_refused(pushed: Path, tmp_path: Path) -> None:
    said = "is neither a run folder nor a checkpoint in one"
    pulled = Path(shutil.copytree(pushed, tmp_path / "a" / "b"))
    for source in (tmp_path, pulled, tmp_path / "gone"):
        code, _, error = chess_lab("push", source, "--to", tmp_path / "out")
        assert code == 1 and said in error
    shutil.copy(pulled / "config.json", tmp_path)  # two folders up is another run
    code, _, error = chess_lab("push", pulled, "--to", tmp_path / "out")
    assert code == 1 and said in error
    assert not (tmp_path / "out").exists()


def test_a_network_of_a_users_own_is_refused(run: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(run, tmp_path / "own", symlinks=True))
    settings = json.loads((own / "config.json").read_text())
    settings.pop("sha256")
    settings["policy"]["network"] = "my_net:Net"
    (own / "config.json").write_text(json.dumps(settings))
    code, _, error = chess_lab("push", own, "--to", tmp_path / "out")
    assert code == 1 and "'my_net:Net', code of your own that does not go along" in error


def rewritten(folder: Path, change: Callable[[dict], None]) -> None:
    """Changes what the manifest of a bundle says, and gives it the right sum of its own."""
    values = json.loads((folder / MANIFEST_FILE).read_text())
    del values["sha256"]
    change(values)
    (folder / MANIFEST_FILE).write_bytes(closed(values))


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def name_outside(values: dict) -> None:
    values["files"]["../../evil.txt"] = values["files"].pop("README.md")


def link(folder: Path) -> None:
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to("/etc/hostname")


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "a missing manifest": (lambda f: (f / MANIFEST_FILE).unlink(), "has no manifest.json"),
    "missing weights": (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
    "a pickle": (lambda f: (f / "model.pkl").write_bytes(b"\x80\x04."), "holds model.pkl beside"),
    "a folder": (lambda f: (f / "more").mkdir(), "is a link or no file"),
    "a link": (link, "is a link or no file"),
    "changed weights": (lambda f: flip(f / "model.safetensors"), "its SHA-256 is not that of the manifest"),
    "a longer card": (lambda f: (f / "README.md").open("ab").write(b"!"), "bytes, the manifest says"),
    "a changed manifest": (lambda f: flip(f / MANIFEST_FILE), "manifest.json of"),
    "a large manifest": (lambda f: (f / MANIFEST_FILE).write_bytes(b" " * 20_000), "it has 20,000 bytes"),
    "no JSON": (lambda f: (f / MANIFEST_FILE).write_bytes(b"[[["), "manifest.json of"),
    "a list": (lambda f: (f / MANIFEST_FILE).write_bytes(b"[]"), "manifest.json of"),
    "no sizes": (lambda f: rewritten(f, lambda v: v["files"].update({"README.md": 3})), "does not say what"),
    "a path": (lambda f: rewritten(f, name_outside), "../../evil.txt"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD)
def test_a_folder_with_a_fault_is_refused_and_nothing_is_written(
    fault: str, source: Path, tmp_path: Path
) -> None:
    damage, said = BAD[fault]
    damage(source)
    assert said in refused(source, tmp_path / "out")


def test_a_source_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "cannot be read (No such file or directory)" in refused(
        tmp_path / "gone", tmp_path / "out"
    )


def test_a_full_disk_leaves_nothing_half_written(pushed: Path, tmp_path: Path) -> None:
    with files_up_to(1000):
        assert "cannot be written (File too large)" in refused(pushed, tmp_path / "out")


def test_a_run_goes_to_the_hub_and_comes_back_into_a_folder_of_its_name(
    hub: FakeHub, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said, _ = chess_lab("push", run, "--to", "me/grpo")
    assert code == 0 and f"{hub.address}/me/grpo/commit/" in said
    assert hub.repos["me/grpo"].keys() == {OWN, *ALL} and hub.private == set()
    assert list(hub.large.values()) == [hub.repos["me/grpo"]["model.safetensors"]]
    card = hub.repos["me/grpo"]["README.md"].decode()
    assert "\n# me/grpo\n" in card and "chess-lab pull me/grpo --out grpo\n" in card
    monkeypatch.chdir(tmp_path)
    assert chess_lab("pull", "me/grpo").code == 0
    theirs, ours = (load_policy(str(each)).state_dict() for each in (tmp_path / "grpo", run))
    assert all(torch.equal(theirs[name], ours[name]) for name in ours)
    assert {path.name for path in (tmp_path / "grpo").iterdir()} == ALL


def test_a_second_push_replaces_the_first_and_a_new_repository_may_be_private(
    hub: FakeHub, run: Path, pushed: Path
) -> None:
    assert chess_lab("push", run, "--to", "me/grpo", "--private").code == 0
    hub.repos["me/grpo"]["README.md"] = b"older"
    assert chess_lab("push", run, "--to", "me/grpo", "--license", "mit").code == 0
    assert hub.repos["me/grpo"]["README.md"].startswith(b"---\nlicense: mit\n")
    assert hub.private == {"me/grpo"}


def test_nothing_is_sent_to_a_repository_with_other_files(hub: FakeHub, run: Path) -> None:
    hub.repos["me/data"] = {"thesis.tex": b"years of work"}
    code, _, error = chess_lab("push", run, "--to", "me/data")
    assert code == 1 and "me/data holds thesis.tex" in error and "nothing was sent" in error
    assert hub.repos["me/data"] == {"thesis.tex": b"years of work"}


def test_without_a_token_nothing_is_asked_of_the_hub(
    hub: FakeHub, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    code, _, error = chess_lab("push", run, "--to", "me/grpo")
    assert code == 1 and "`hf auth login` or set HF_TOKEN" in error
    assert hub.requests == []


def test_a_token_without_the_right_is_said(
    hub: FakeHub, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody_else")
    code, _, error = chess_lab("push", run, "--to", "me/grpo")
    assert code == 1 and "status 401" in error and "the token has not the right" in error
    assert "hf_of_somebody_else" not in error and hub.repos == {}


def test_a_repository_that_is_not_there_is_said(hub: FakeHub, tmp_path: Path) -> None:
    assert "me/gone is not on the Hub, or it is private" in refused("me/gone", tmp_path / "out")


def test_a_hub_that_does_not_answer_is_said(
    hub: FakeHub, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert "me/grpo was not transferred (" in refused("me/grpo", tmp_path / "out")
    assert "me/grpo was not transferred (" in chess_lab("push", run, "--to", "me/grpo").err


def test_a_corrupted_download_is_refused(
    hub: FakeHub, shared: dict[str, bytes], tmp_path: Path
) -> None:
    shared["model.safetensors"] = shared["model.safetensors"][:-1] + b"\x01"
    assert "model.safetensors of me/grpo is damaged" in refused("me/grpo", tmp_path / "out")


def test_a_repository_with_another_file_is_refused_before_anything_is_fetched(
    hub: FakeHub, shared: dict[str, bytes], tmp_path: Path
) -> None:
    for name in ("pytorch_model.bin", "sub/model.safetensors", "../escaped"):
        shared[name] = b"x"
        assert f"me/grpo holds {name} beside" in refused("me/grpo", tmp_path / "out")
        del shared[name]
    assert not any("/resolve/" in request for request in hub.requests)


def test_weights_larger_than_stated_are_not_fetched(
    hub: FakeHub, shared: dict[str, bytes], tmp_path: Path
) -> None:
    shared["model.safetensors"] += b"\0" * 1000
    assert "bytes, the manifest says" in refused("me/grpo", tmp_path / "out")
    assert not any(request.endswith("/model.safetensors") for request in hub.requests)


def test_a_repository_without_a_manifest_or_with_a_path_in_it_is_refused(
    hub: FakeHub, shared: dict[str, bytes], tmp_path: Path
) -> None:
    contents = {("../../x" if name == "README.md" else name): shared[name] for name in FILES}
    shared[MANIFEST_FILE] = manifest(contents)
    assert "it names ../../x, config.json" in refused("me/grpo", tmp_path / "out")
    del shared[MANIFEST_FILE]
    assert "me/grpo has no manifest.json" in refused("me/grpo", tmp_path / "out")


def test_a_download_that_breaks_off_is_refused_and_one_that_goes_on_is_whole(
    hub: FakeHub, shared: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = time.sleep  # the library waits a second before it asks again
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
    hub.breaks.add("model.safetensors")
    assert "the Hub refused me/grpo with status 503" in refused("me/grpo", tmp_path / "out")
    hub.breaks.add("model.safetensors")
    hub.heals = True
    assert chess_lab("pull", "me/grpo", "--out", tmp_path / "out").code == 0
    assert read_bundle(tmp_path / "out")["model.safetensors"] == shared["model.safetensors"]


def test_without_the_library_the_hub_is_answered_with_what_to_install_and_a_folder_needs_none(
    run: Path, pushed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    for words in (["push", run, "--to", "me/grpo"], ["pull", "me/grpo", "--out", tmp_path / "a"]):
        code, _, error = chess_lab(*words)
        assert code == 1 and "pip install -e '.[hub]'" in error
    assert chess_lab("pull", pushed, "--out", tmp_path / "b").code == 0


@pytest.mark.slow
def test_a_process_of_its_own_pulls_by_the_address_in_hf_endpoint_into_a_folder_of_the_name(
    hub: FakeHub, shared: dict[str, bytes], tmp_path: Path
) -> None:
    home = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "home"), "NO_PROXY": "127.0.0.1"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-m", "algorithms.cli", "pull", "me/grpo"],
        cwd=tmp_path, env={**clean, **home, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert read_bundle(tmp_path / "grpo").keys() == ALL
