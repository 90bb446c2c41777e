"""What `chess-lab compare` allows one to say of the runs, from its comparison.json, for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from algorithms.reports.run_files import RunFileError, printable, read_object

COMPARISON_FILE = "comparison.json"


@dataclass(frozen=True)
class Claims:
    """Sentences on one subject.

    Attributes:
        subject: what was compared.
        sentences: what may be said of it.
    """

    subject: str
    sentences: Sequence[str]


def read_claims(folder: Path) -> list[Claims]:
    """The claims of the comparison whose folder this is; empty where it is none, or not finished.

    Raises:
        RunFileError: comparison.json is damaged, a symbolic link, or has another form.
    """
    path = folder / COMPARISON_FILE
    if not path.exists() and not path.is_symlink():
        return []
    values = read_object(path)
    try:
        return [*_families(values["families"]), *_others(values)]
    except (KeyError, TypeError, AttributeError) as error:
        raise RunFileError(
            f"{path} is not as `chess-lab compare` writes it ({error!r}): run the comparison again"
        ) from None


def _families(families: Mapping[str, Any]) -> list[Claims]:
    several = len(families) > 1
    found = []
    for name, family in families.items():
        seeds = f"{len(family['seeds'])} seeds" + (f", {printable(name)}" if several else "")
        for quantity in family["quantities"]:
            sentences = [*quantity["claims"], *quantity["not_compared"]]
            found.append(_claims(f"{quantity['quantity']} ({seeds})", sentences))
        if family["left_out"]:
            found.append(_claims(f"Left out ({seeds})", family["left_out"]))
    return found


def _others(values: Mapping[str, Any]) -> list[Claims]:
    broken = [f"{each['cell']}: {each['reason']}" for each in values["broken"]]
    parts = {
        "Not comparable, compared all the same": values["mixed"],
        "Controls, which must coincide": [each["sentence"] for each in values["controls"]],
        "Broken runs": broken,
        "Learning rates": [values["tuning_says"]],
    }
    return [_claims(subject, sentences) for subject, sentences in parts.items() if sentences]


def _claims(subject: str, sentences: Sequence[str]) -> Claims:
    return Claims(printable(subject), [printable(sentence) for sentence in sentences])
