"""Tables and the figure of docs/doctor.md: stages and rules as they are declared, and how often the doctor is right."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from algorithms.commands.diagnose import written
from algorithms.doctor import RULES, diagnose_run, sample_rules, update_rules
from algorithms.doctor.diagnosis import AS_USUAL, LEARNS, UNMEASURED
from algorithms.doctor.signal_chain import OBJECTIVE_KEPT, STAGES, UNPLAYED
from benchmarks.corpus.chess import archive, lines
from docs.pages import ROOT, result
from docs.pages.figures import links
from docs.pages.markdown import table

Rows = Sequence[Mapping[str, Any]]

SHOWN = {
    "sound": "a sound run",
    "temp1.3": "learned at another temperature",
    "negate20": "rewards with the wrong sign",
    "shuffle.5": "half of the rewards shuffled",
    "ashuf": "advantages shuffled",
    "bonus1": "a bonus five times as large",
    "eps.1": "Adam with an eps of .1",
}
"""Kind of `benchmarks.doctor.faults` -> what the figure calls it."""

SAYS: dict[str, tuple[str, str, str]] = {
    "temperature_mismatch": (
        "before the first step the learner's log-odds are a multiple of the sampler's, other than 1",
        "a factor of 1, or scatter that no factor explains",
        f"|ln factor| below {sample_rules.HARMFUL_LOG_SLOPE:g}",
    ),
    "forward_mismatch": (
        "the learner's log-odds scatter around the sampler's at the first update of a process, or at every "
        "update from one on by about the same",
        "no scatter, or scatter that grows from synchronisation to synchronisation",
        f"scatter below {sample_rules.HARMFUL_RESIDUAL:g} nats",
    ),
    "stale_behaviour": (
        "some updates begin at the sampler's weights and others further away",
        "every update begins at the sampler's weights, or as far from them as the first one",
        f"mean scatter below {sample_rules.HARMFUL_STALENESS:g} nats",
    ),
    "no_signal": (
        "many groups have equal rewards for different moves, or are one and the same move from the start",
        "few groups with equal rewards at the start",
        f"less than {sample_rules.HARMFUL_TIED:.0%} of the groups with equal rewards, "
        f"less than {sample_rules.HARMFUL_SINGLE:.0%} of one move",
    ),
    "fixed_positions": (
        f"positions that were trained on before come at once and often, or entropy on them is "
        f"{sample_rules.SMALL_SET_GAP:.0%} below that on others",
        "fresh positions, or those of a large set, with equal entropies",
        "never: a large set is ruled out, a small one counts as harmful, and between the two it cannot be told",
    ),
    "sampled_entropy_bonus": (
        "what the bonus rewards is not the entropy",
        "no bonus, or one that rewards the entropy",
        f"the two part by less than {update_rules.HARMFUL_OVERPAID:g} divided by the coefficient, in nats",
    ),
    "saturated_controller": (
        "a coefficient stays at its upper bound",
        "no controller at a bound, or at its lower one",
        f"the term has less than {update_rules.HARMFUL_HOLD:.0%} beside the policy's",
    ),
    "loss_budget": (
        f"the whole loss keeps less than {OBJECTIVE_KEPT:g} of the policy loss's direction, or a bonus has "
        f"{update_rules.BONUS_TAKES:.0%} beside the policy's and the policy goes on knowing better moves than it plays",
        "a whole loss that pulls where the policy's does",
        f"under a bonus the most probable moves would save less than {UNPLAYED:.0%} of the first regret at the end",
    ),
    "sharp_optimum": (
        "the best policy under the coefficients in force has less than half of the entropy at the start",
        "an optimum with entropy",
        f"it has more than {update_rules.HARMFUL_OPTIMUM_NATS:g} nats, or the run learns and entropy is not lost "
        "without return",
    ),
    "clip_asymmetry": (
        f"the upper clip takes the gradient of more than {update_rules.ONE_SIDED:g} times the samples that the "
        "lower one takes",
        "shares of one order",
        f"less than {update_rules.HARMFUL_STOPPED:.0%} of the samples are stopped",
    ),
    "update_epochs": (
        f"a batch is used several times, and less than {update_rules.HARMFUL_ESS:.0%} of its samples stay effective",
        "one pass, or samples that stay effective",
        "the run learns, and keeps its entropy or spends it on that",
    ),
    "weak_entropy_high_lr": (
        "one pass moves the policy far, no bonus holds it, and entropy falls",
        "small steps, a bonus with a say, or entropy that is kept",
        f"regret falls by more than {update_rules.ENOUGH_RETURN:.0%} of the share that entropy falls by; "
        f"from {update_rules.LITTLE_RETURN:.0%} "
        "on it cannot be told",
    ),
}
"""Rule -> what names the cause, what rules it out, and where it does no harm."""


def figures() -> dict[str, str]:
    """{path: SVG} of the figures."""
    rows = {
        row["kind"]: row["links"]
        for row in reversed(result("doctor_open")["rows"])
        if (row["weights"], row["network"], row["preset"]) == ("warm", "move_net", "grpo")
    }
    stages = {stage.name: stage.name for stage in STAGES if stage.name != "draw"}
    shown = {said: {name: rows[kind][name] for name in stages} for kind, said in SHOWN.items()}
    lost = {said: _stage(kind) for kind, said in SHOWN.items()}
    return {"doctor/chain.svg": links("doctor_chain", shown, lost)}


def _stage(kind: str) -> str:
    return next(str(row["stage"]) for row in result("doctor_open")["rows"] if row["kind"] == kind)


def example(run: str) -> str:
    """What `chess-lab diagnose` says of a packed run of this project."""
    with tempfile.TemporaryDirectory() as scratch:
        with archive(ROOT / "benchmarks" / "data" / "corpus" / "chess_open.tar.xz") as packed:
            for name in ("columns.json", "config.json"):
                packed.extract(f"{run}/{name}", scratch)
        folder = Path(scratch) / run
        record = lines((folder / "columns.json").read_bytes())
        (folder / "metrics.jsonl").write_text(record, encoding="utf-8")
        said = written(diagnose_run(folder), "RUN")
    return "\n".join(["```text", *said, "```"])


def stages() -> str:
    """A line for each stage."""
    return table(
        ["stage", "what it means that the signal is lost there", "look at"],
        [(f"`{stage.name}`", stage.title, stage.look_at) for stage in STAGES],
    )


def rules() -> str:
    """A line for each rule, as it is declared."""
    return table(
        ["cause", "stage", "named if", "ruled out by", "harmless where"],
        [(f"`{r.name}`", r.stage and f"`{r.stage}`", *SAYS[r.name]) for r in RULES],
    )


def needs() -> str:
    """What each rule needs, and what logs it."""
    rows = []
    for rule in RULES:
        metrics = " or ".join(", ".join(f"`{name}`" for name in names) for names in rule.needs)
        hidden = ", ".join(f"`{name}`" for name in (*rule.hidden_by, *rule.follows)) or "none"
        rows.append((f"`{rule.name}`", metrics, rule.logged_by, hidden))
    return table(["cause", "needs", "logged by", "hidden by"], rows)


def rates() -> str:
    """A line for each figure: on sealed faults, under nine algorithms, and on those that the bounds were chosen on."""
    parts = [
        result(f"doctor_{part}")["settings"]["rates"] for part in ("sealed", "presets", "open")
    ]

    def share(row: Mapping[str, Any]) -> str:
        return f"{row['count']} of {row['of']} ({row['low']:.1%} to {row['high']:.1%})"

    return table(
        [
            "figure",
            "sealed faults",
            "under nine algorithms",
            "faults that the bounds were chosen on",
        ],
        [(each[0]["figure"], *map(share, each)) for each in zip(*parts, strict=True)],
    )


def missed() -> str:
    """A line for each harmful run of the sealed part that was called learning, or whose stage was wrong."""
    lines = []
    for row in result("doctor_sealed")["rows"]:
        learns = row["verdict"] in (AS_USUAL, LEARNS, UNMEASURED)
        if not row["harmful"] or not (learns or (row["stage"] and row["lost"] != row["stage"])):
            continue
        where = f"{row['weights']} {row['network']}, {row['preset']}"
        lost = f"lost at `{row['lost']}`" if row["lost"] else "lost at no stage"
        said = row["verdict"] if learns else f"{row['verdict']}; {lost}"
        lines.append(
            (f"{row['kind']} (`{row['stage']}`)", where, f"{row['harm_cp']:+.0f} cp", said)
        )
    return table(["fault (its stage)", "run", "against the twin", "the doctor"], lines)


def remedies() -> str:
    """A line for each part: what became of the runs whose printed command was run."""
    lines = []
    for part, title in (
        ("open", "the faults that the bounds were chosen on"),
        ("sealed", "sealed faults"),
        ("causes", "the causes that can be switched on, two other seeds"),
    ):
        rows = result(f"doctor_remedies_{part}")["rows"]
        for in_code, made in ((False, "a setting"), (True, "code")):
            group = [row for row in rows if row["in_code"] is in_code]
            learning = sum(row["cured_verdict"] in (AS_USUAL, LEARNS) for row in group)
            better = sum(row["cured_end_cp"] < row["end_cp"] for row in group)
            lines.append((title, made, len(group), learning, better))
    header = ["runs", "the fault is", "commands", "then called learning", "then less regret"]
    return table(header, lines)
