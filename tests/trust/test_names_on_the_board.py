"""The board opens a stranger's run folder without executing anything that its config.json names."""

from __future__ import annotations

from typing import Any

import pytest

from algorithms.board.policies import BoardPolicies
from algorithms.config.foreign import NO_TRUST, Trust
from algorithms.playing.position import reached
from tests.board.served import wait_until_loaded
from tests.trust.stranger import Stranger
from tests.trust.test_names_in_a_folder import NAMES


def opened(stranger: Stranger, trust: Trust) -> dict[str, Any]:
    """What the page is told of the folder's policy, after it was asked about a position."""
    name = str(stranger.folder)
    policies = BoardPolicies([name], None, trust)
    try:
        policies.load_all()
        wait_until_loaded(policies)
        (state,) = policies.states()
        if state["state"] == "ready":
            loaded = policies.loaded(name)
            policies.ask(lambda: policies.view(loaded, reached(None, ()), 1.0)).result(60)
        return state
    finally:
        policies.close()


@pytest.mark.parametrize(("setting", "value"), NAMES)
def test_no_name_of_a_folder_is_followed(stranger: Stranger, setting: str, value: Any) -> None:
    stranger.says(setting, value)
    state = opened(stranger, NO_TRUST)
    assert not stranger.got_in
    if setting == "policy.network":
        assert state["state"] == "failed" and "--trust" in state["says"]
    else:  # the weights are this project's: they can be played with
        assert state["state"] == "ready" and "add --trust" in state["no_optimum"]


def test_a_network_that_the_user_trusts_is_imported(stranger: Stranger) -> None:
    stranger.says("policy.network", "MODULE:Evil")
    opened(stranger, Trust(everything=True))
    assert stranger.got_in
