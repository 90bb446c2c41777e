"""The model card of a policy that is pushed: a page in Markdown, all of it from the run's record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.evaluation.regret import MAIN_SLICE
from algorithms.networks.build import options_of, shipped_names
from algorithms.networks.settings import NetworkConfig
from algorithms.reports.judges import judge_in_words
from algorithms.reports.run_files import RunRecord, printable
from chess_env.positions.heldout import load_heldout

UNKNOWN = "not recorded"
_PATH = re.compile(r"[^\s:=,;|]*[/\\].*", re.DOTALL)

_CARD = """---
license: {license}
library_name: chess-selfplay-lab
pipeline_tag: reinforcement-learning
tags:
- chess
- reinforcement-learning
- self-play
---

# {title}

A chess policy: a network that gives each legal move of a position a probability. `{algorithm}` of chess-selfplay-lab,
a laboratory for entropy collapse in policy-gradient learning, trained it. This page was made from the run's record.

## The run

{run}

## What was measured

{measured}

Regret is what a move costs against the best one, in centipawns, clipped at 1,000: the mean over held-out positions,
of which none is trained on. "Drawn" weighs all moves by their probability, "likeliest" takes the most probable one.
Judge: {judge} (`{judge_id}`). Entropy is that of the moves' probabilities. All at {when}.

## How to load it

`chess-lab` comes from a clone of chess-selfplay-lab, with `pip install -e '.[hub]'`.

```console
chess-lab pull {source} --out {folder}
chess-lab eval {folder} --positions
chess-lab train {trainer} --init-from {folder} {options}
```

`chess-lab pull` compares every file with `manifest.json`, and refuses any other file.

## Licence

{license}, as whoever pushed the weights says. The project itself is under GPL-3.0-or-later.

## What this does not cover

- The optimizer and the record stayed with the owner: the run itself cannot be continued from here.
- It is one run with one seed. It says nothing of how the algorithm does in general.
- Regret is of single moves, by an engine that looks a few plies ahead. It is no Elo; `chess-lab eval` plays games.
- The manifest shows that the files arrived as they were sent. It does not show who sent them.
"""


def model_card(
    run: RunRecord,
    network: NetworkConfig,
    *,
    update: int,
    num_weights: int,
    title: str,
    license_id: str,
) -> str:
    """The page in Markdown, without a path of the machine that trained.

    Args:
        run: record of the run.
        network: of the policy, one of this project's.
        update: after which the weights were written.
        num_weights: how many numbers they are.
        title: user/name of the Hub, or the name of a folder.
        license_id: the Hub's name of the licence of the weights.
    """
    rows = [row for row in run.rows if (row["step"] or 0) <= update]
    judged = next((row for row in reversed(rows) if row.get("eval/regret_cp") is not None), {})
    last = rows[-1] if rows else {}
    config, judge_id = run.config, load_heldout().evaluator_id
    algorithm = _object(config, "algorithm")
    name = _shown(algorithm.get("name"))
    environment = _object(config, "env")
    start = config.get("init_from")
    evaluator_id = run.environment.get("evaluator")
    words = judge_in_words(_shown(evaluator_id))
    about = {
        "algorithm": ", ".join(
            [
                name,
                *(
                    f"{k} {_shown(v)}"
                    for k, v in algorithm.items()
                    if k != "name" and v is not None
                ),
            ]
        ),
        "entropy bonus": _shown(_object(config, "regularizer").get("ent_coef")),
        "network": f"{network.label}: {num_weights:,} weights",
        "evaluator": f"{_shown(environment.get('evaluator'))}: {words}; id `{_shown(evaluator_id)}`",
        "reward": _shown(environment.get("reward")),
        "scored moves": f"{_number(last.get('scored_moves'))}, in {update:,} updates",
        "seed": _shown(config.get("seed")),
        "first weights": "random" if start is None else _first(start),
        "commit of the project": _shown(_object(run.environment, "git").get("commit"))[:12],
    }
    slices = {MAIN_SLICE: "eval/"} | {
        key.split("/")[1]: f"{key.rpartition('/')[0]}/"
        for key in judged
        if key.startswith("eval/") and key.endswith("/regret_cp") and key.count("/") == 2
    }
    measures = [
        [
            slice_name,
            *(
                _number(judged.get(prefix + metric))
                for metric in ("regret_cp", "regret_cp_greedy", "entropy")
            ),
        ]
        for slice_name, prefix in slices.items()
    ]
    return _CARD.format(
        license=license_id,
        title=printable(title),
        algorithm=name,
        run=_table(["what", "value"], [list(each) for each in about.items()]),
        measured=_table(
            ["held-out slice", "drawn, cp", "likeliest, cp", "entropy, nats"], measures
        ),
        judge=judge_in_words(judge_id),
        judge_id=judge_id,
        when=f"update {_number(judged.get('step'))} of the run",
        source=title if "/" in title else "SOURCE",
        folder=title.rpartition("/")[2],
        trainer="grpo" if ":" in name or config.get("loop") else name,
        options=options_of(network, NetworkConfig()),
    )


def _object(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


def _first(start: Any) -> str:
    """What the run began with: a shipped policy by its name, any other file of the owner without it."""
    return f"`{start}`" if start in shipped_names() else "those of another policy of the owner"


def _shown(value: Any) -> str:
    """A value of the record: without a path and what follows it, and without what Markdown would obey."""
    if value is None:
        return UNKNOWN
    return re.sub(r"[|`]", " ", _PATH.sub("FILE", printable(str(value))))


def _number(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
