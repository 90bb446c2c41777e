"""`chess-lab diagnose`: what is printed, in which order, how it exits, and what it refuses to read."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from algorithms.commands import diagnose as command
from algorithms.doctor import RULES, diagnose, diagnose_run
from algorithms.doctor.diagnosis import LEARNS, UNMEASURED
from tests.commands.lab import ENV, chess_lab
from tests.doctor.rows import Rows, keeping, record, without_chain, write
from tests.doctor.signatures import SIGNATURES

STARTS, CLIP = (SIGNATURES[case].changes for case in ("the same starts", "a tight upper clip"))
ROWS: dict[str, tuple[Rows, int]] = {
    LEARNS: (record(), 0),
    UNMEASURED: (without_chain(record()), 3),
    "impaired": (SIGNATURES["stale"].rows, 1),
    "collapse": (SIGNATURES["a sharp optimum"].rows, 1),
    "unexplained collapse": (record(entropy=(2.8, 0.7), regret_cp=(300.0, 290.0)), 1),
    "not learning": (record(regret_cp=(300.0, 298.0)), 1),
    "getting worse": (record(regret_cp=(300.0, 340.0)), 1),
    "cannot tell": (keeping(record(), lambda name: not name.startswith("ratio/")), 3),
    "too short": (record(3), 3),
}


@pytest.mark.parametrize("verdict", list(ROWS))
@pytest.mark.parametrize("options", [(), ("--json",), ("--ruled-out",)], ids=" ".join)
def test_the_exit_code_follows_from_the_verdict(
    verdict: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    rows, code = ROWS[verdict]
    folder = write(tmp_path / "run", rows)
    answer = chess_lab("diagnose", folder, *options)
    assert answer.code == code and answer.err == ""
    if options == ("--json",):
        assert json.loads(answer.out) == diagnose_run(folder).to_dict()
    else:
        assert answer.out.startswith(f"verdict: {verdict}\n\noutcome: ")


def test_outcome_causes_what_cannot_be_told_and_what_is_ruled_out_come_in_that_order(
    tmp_path: Path,
) -> None:
    rows = record(**SIGNATURES["temperature"].changes | STARTS | CLIP | {"entropy": (2.8, 5.5)})
    rows = keeping(rows, lambda name: name != "rollout/reward_zero_std_fraction")
    out = chess_lab("diagnose", write(tmp_path / "run", rows)).out
    places = [
        out.index(part)
        for part in (
            "outcome: learning, entropy kept", "   regret      300 -> 150 cp: -50% (95% interval -51% to -49%)",
            "\n\nstages: the signal is lost at `ratio` from update 1 on (0.60 of it is kept)\n   means       the",
            "   look at     the temperatures", "\n\ncauses:\n1. temperature_mismatch at `ratio` (confidence ",
            "   measured    ", "   without it  a factor of 1",
            "   effect      4.4 x the least that did harm; from update 1 on", "   remedy      ",
            "   once mended chess-lab train --like ", "2. fixed_positions (confidence ",
            "\n\ncannot tell:\n- no_signal\n   missing     rollout/reward_zero_std_fraction\n   logged by   every run",
            "- clip_asymmetry: temperature_mismatch shows the same", "\n\nruled out: 8 of 12 causes (--ruled-out",
            "\n\nnotes:\n- impossible value: ",
        )
    ]  # fmt: skip
    assert places == sorted(places)


def test_a_cause_that_does_no_harm_stands_under_its_own_title(tmp_path: Path) -> None:
    rows = record(**SIGNATURES["rounding"].changes | CLIP)
    out = chess_lab("diagnose", write(tmp_path / "run", rows)).out
    harmful, harmless = out.split("\n\npresent, harmless at this size:\n")
    assert "causes:\n1. clip_asymmetry" in harmful and harmless.startswith("2. forward_mismatch")
    assert "   effect      from update 1 on\n" in harmless


def test_the_reasons_of_what_is_ruled_out_are_given_on_demand(tmp_path: Path) -> None:
    folder = write(tmp_path / "run", record())
    short, long = (chess_lab("diagnose", folder, *more).out for more in ((), ("--ruled-out",)))
    for rule in RULES:
        assert rule.name in short and f"\n- {rule.name}: " in long
    assert len(short.splitlines()) < 15 < len(long.splitlines())


def test_causes_that_cannot_be_told_for_one_reason_stand_together() -> None:
    rows = record() + record()
    text = "\n".join(command.written(diagnose(rows), "run"))
    assert text.count("the record is not that of one run") == 1
    assert all(rule.name in text for rule in RULES)


def test_what_the_evaluations_do_not_tell_is_said() -> None:
    rows = record()
    for row, regret in zip(rows[::4], (300.0, 200.0, 310.0, 190.0, 280.0), strict=True):
        row["eval/regret_cp"] = regret
    text = " ".join(" ".join(command.written(diagnose(rows), "run")).split())
    assert "cannot tell whether it learns" in text and "the evaluations scatter too much" in text
    bare = keeping(record(), lambda name: not name.startswith("eval/"))
    text = " ".join(" ".join(command.written(diagnose(bare), "run")).split())
    assert "regret not known: it takes two evaluations (--eval-interval-updates)" in text
    turned = record()
    for row, regret in zip(turned[::4], (300.0, 225.0, 150.0, 200.0, 250.0), strict=True):
        row["eval/regret_cp"] = regret
    assert "lowest at update 8 and rose" in "\n".join(command.written(diagnose(turned), "run"))


def test_the_command_to_confirm_stands_on_one_line_with_the_folder_quoted(tmp_path: Path) -> None:
    folder = write(tmp_path / f"<b>{'long' * 20} run", SIGNATURES["stale"].rows)
    code, out, _ = chess_lab("diagnose", folder)
    wanted = f"chess-lab train --like '{folder}' --rollout.sync-interval-updates 1"
    assert code == 1 and any(line.endswith(wanted) for line in out.splitlines())


def test_neither_settings_nor_the_folders_name_change_the_verdict(tmp_path: Path) -> None:
    folder = write(tmp_path / "temperature-1.3", SIGNATURES["large steps"].rows)
    (folder / "config.json").write_text('{"seed": 1}')
    (folder / "environment.json").write_text("{}")
    before = chess_lab("diagnose", folder, "--json")
    (folder / "config.json").write_text("{damaged")  # it is not even read
    assert chess_lab("diagnose", folder, "--json") == before
    (folder / "config.json").unlink()
    (folder / "environment.json").unlink()
    assert chess_lab("diagnose", folder.rename(tmp_path / "x"), "--json") == before


def test_a_diagnosis_of_a_thousand_updates_takes_two_seconds_at_most_and_no_torch(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "run", record(1000, rollout__reward_mean=0.1))
    code = (
        "import sys; from algorithms import cli; done = cli.main(sys.argv[1:]);"
        "print('torch' in sys.modules, 'gymnasium' in sys.modules, done)"
    )
    words = [sys.executable, "-c", code, "diagnose", str(folder)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, capture_output=True, text=True, env=ENV, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.splitlines()[-1] == "False False 0", done.stderr
    # Of a processor: the wall's time is also that of whatever else runs.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2.0


UNREADABLE = {
    "missing": (None, "cannot be read"),
    "only a cut line": ('{"step": 0, "eval', "holds no complete row"),
    "not JSON": ("hello\n", "line 1 is damaged: 'hello"),
    "two runs": ('{"step": 3}\n{"step": 0}\n', "line 2: step is 0"),
}


@pytest.mark.parametrize("case", list(UNREADABLE))
def test_a_record_that_cannot_be_read_is_named_and_ends_with_2(case: str, tmp_path: Path) -> None:
    text, message = UNREADABLE[case]
    if text is not None:
        (tmp_path / "metrics.jsonl").write_text(text)
    out = chess_lab("diagnose", tmp_path, "--json")
    assert out.code == 2
    assert out.out == "" and "Traceback" not in out.err
    assert out.err.startswith(f"chess-lab diagnose: {tmp_path / 'metrics.jsonl'}")
    assert message in out.err


def test_a_folder_in_the_records_place_and_no_folder_at_all_are_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    code, _, err = chess_lab("diagnose", tmp_path)
    assert code == 2 and str(tmp_path / "metrics.jsonl") in err
    code, _, err = chess_lab("diagnose", tmp_path / "nowhere")
    assert code == 2 and f"{tmp_path / 'nowhere'} does not exist" in err


def test_without_a_run_the_newest_is_diagnosed_and_a_folder_of_runs_run_by_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = chess_lab("diagnose")
    assert code == 2 and out == "" and "RUN is missing" in err
    for age, (name, verdict) in enumerate((("well", LEARNS), ("ill", "impaired"))):
        write(tmp_path / "runs" / name, ROWS[verdict][0])
        os.utime(tmp_path / "runs" / name / "metrics.jsonl", (age, age))
    code, out, err = chess_lab("diagnose")
    assert code == 1 and out.startswith("verdict: impaired") and "runs/ill" in err
    code, out, _ = chess_lab("diagnose", "runs")
    lines = out.splitlines()
    assert (
        code == 1 and lines[0] == "runs/ill" and lines[1].startswith("   impaired: stale_behaviour")
    )
    assert "runs/well" in lines and max(map(len, lines)) <= 80
    found = json.loads(chess_lab("diagnose", "runs", "--json").out)
    assert {name: each["verdict"] for name, each in found.items()} == {
        "runs/ill": "impaired",
        "runs/well": LEARNS,
    }
