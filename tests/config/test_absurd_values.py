"""A number that no run can use is refused where the settings are built, by the name of its setting."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from algorithms.config.changes import changed, settings_of
from algorithms.config.names import NAMES, STRONG_FOR, named_run, strong
from algorithms.core.checks import LARGEST, check_fields
from algorithms.pretraining.config import PretrainConfig

WHOLE = (10**18, 10**30, -1, 0)
ANY = (*WHOLE, 1e15, 1e30, 1e300, -1e300, math.nan, math.inf, -math.inf)
RUNS: dict[str, Any] = {
    **{name: named_run(name) for name in NAMES},
    **{f"{name} strong": strong(named_run(name)) for name in STRONG_FOR},
    "pretrain": PretrainConfig(),
}


def _is(hint: Any, kind: type) -> bool:
    return kind in (hint, *getattr(hint, "__args__", ()))


@pytest.mark.parametrize("name", RUNS)
def test_every_number_is_taken_or_refused_by_the_name_of_its_setting(name: str) -> None:
    config = RUNS[name]
    tried = 0
    for setting in settings_of(config):
        values = ANY if _is(setting.hint, float) else WHOLE if _is(setting.hint, int) else ()
        for value in values:
            tried += 1
            try:
                found = changed(config, {setting.name: value})
            except ValueError as error:
                assert setting.field in str(error), f"{setting.name} {value}: {error}"
            else:
                huge = LARGEST < abs(value) < math.inf or abs(value) == 10**30
                assert not huge and not math.isnan(value), f"{setting.name} takes {value}"
                assert dataclasses.is_dataclass(found)
    assert tried > 100


def test_numbers_of_an_own_algorithm_are_refused_by_name_too() -> None:
    @dataclasses.dataclass(frozen=True)
    class Own:
        name = "own"
        strength: float = 1e300
        count: int = 2**63

    with pytest.raises(ValueError, match=r"algorithm\.strength is 1e\+300: .*float32.*1e\+18"):
        changed(RUNS["grpo"], {"algorithm": Own()})
    with pytest.raises(ValueError, match=r"algorithm\.count is 9223372036854775808: .*64 bits"):
        changed(RUNS["grpo"], {"algorithm": Own(strength=-LARGEST)})
    check_fields(Own(strength=math.inf, count=-(2**63)))
