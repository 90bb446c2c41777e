"""The vector environment in every form of observation and mask: the same games, told in other arrays."""

from __future__ import annotations

import itertools
from typing import Any

import chess
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chess_env.moves import NUM_ACTIONS, legal_actions
from chess_env.observation import encode_batch
from chess_env.rules.action_bits import MASK_WORDS, sample_action_bits
from chess_env.vector_env import ChessSelfPlayVectorEnv
from tests.env.material import MaterialEvaluator
from tests.env.vector_play import NUM_ENVS, choose, make

FORMS = [
    {"observation": observation, "mask": mask, "copy": copy}
    for observation, mask, copy in itertools.product(
        ("planes", "positions"), ("dense", "bits", "ids"), (True, False)
    )
]
CONDITIONS: dict[str, dict[str, Any]] = {
    "outcome only": {"start_positions": "random_plies:100-200"},
    "scored, restarted by a step": {
        "evaluator": MaterialEvaluator,
        "autoreset_mode": "NEXT_STEP",
        "max_plies": 7,
    },
    "opponent, facts": {
        "opponent": "random",
        "evaluator": MaterialEvaluator,
        "max_plies": 9,
        "move_facts": True,
        "illegal_action": "resample",
    },
}


def made(condition: str, **form: Any) -> ChessSelfPlayVectorEnv:
    arguments = CONDITIONS[condition] | form
    if "evaluator" in arguments:
        arguments["evaluator"] = arguments["evaluator"]()
    return make(**arguments)


def bits_of(masks: np.ndarray) -> np.ndarray:
    """uint64 [N, 30], by NumPy's own packing."""
    padded = np.zeros((len(masks), 64 * MASK_WORDS), np.uint8)
    padded[:, :NUM_ACTIONS] = masks
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")


def assert_tells_the_same(
    form: dict[str, Any], seen: tuple[Any, Any], default: tuple[Any, Any], rows: Any
) -> None:
    """That both tell the same of the boards `rows`."""
    (obs, info), (planes, told) = seen, default
    expected = {
        name: value for name, value in told.items() if not name.startswith(("final", "_final"))
    }
    masks = expected.pop("action_mask")
    if form["mask"] == "dense":
        expected["action_mask"] = masks
    if form["mask"] == "bits":
        expected["action_mask_bits"] = bits_of(masks)
    found = {
        name: value for name, value in info.items() if not name.startswith(("final", "_final"))
    }
    if form["observation"] == "positions":
        planes_found = encode_batch(obs[rows], found.pop("repetitions")[rows])
    else:
        planes_found = obs[rows]
    assert np.array_equal(planes_found, planes[rows])
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert np.array_equal(found[name][rows], value[rows]), name


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("form", FORMS[1:], ids=lambda form: "-".join(map(str, form.values())))
def test_every_form_tells_the_same_games(form: dict[str, Any], condition: str) -> None:
    default, other = made(condition), made(condition, **form)
    rng = np.random.default_rng(3)
    told, seen = default.reset(seed=5), other.reset(seed=5)
    assert_tells_the_same(form, seen, told, slice(None))
    endings = 0
    for _ in range(40):
        actions = choose(told[1], rng, illegal_share=0.02)
        obs, *paid, info = default.step(actions)
        other_obs, *other_paid, other_info = other.step(actions)
        assert all(np.array_equal(a, b) for a, b in zip(paid, other_paid, strict=True))
        told, seen = (obs, info), (other_obs, other_info)
        assert_tells_the_same(form, seen, told, slice(None))
        assert other.observation_space.contains(other_obs)
        assert np.array_equal(other.planes(), obs)
        assert np.array_equal(other.action_masks(), info["action_mask"].astype(bool))
        ended = paid[1] | paid[2]
        endings += int(ended.sum())
        if "final_obs" in info:
            assert np.array_equal(other_info["_final_obs"], ended)
            last = [(each["final_obs"], each["final_info"]) for each in (other_info, info)]
            assert_tells_the_same(form, *last, ended)
    assert endings > 0
    state = default.get_state()
    assert_tells_the_same(form, other.set_state(state), default.set_state(state), slice(None))


def test_bits_and_ids_are_python_chess_s_legal_moves_through_random_games() -> None:
    env = make(mask="bits", observation="positions", copy=False)
    rng = np.random.default_rng(11)
    _, info = env.reset(seed=0)
    for _ in range(80):
        for row, fen in enumerate(env.fens()):
            expected = legal_actions(chess.Board(fen))
            count = info["num_legal"][row]
            assert np.array_equal(info["legal_ids"][row, :count], expected)
            assert (info["legal_ids"][row, count:] == -1).all()
            number = sum(
                int(word) << 64 * w for w, word in enumerate(info["action_mask_bits"][row])
            )
            assert number == sum(1 << int(action) for action in expected)
        *_, info = env.step(sample_action_bits(info["action_mask_bits"], rng.random(NUM_ENVS)))
        assert not info["illegal_action"].any()


def test_without_copies_a_step_writes_over_what_the_last_one_returned() -> None:
    env = make(copy=False, start_positions="random_plies:20-30")
    obs, info = env.reset(seed=0)
    kept, mask = obs.copy(), info["action_mask"].copy()
    after, rewards, terminated, truncated, info_after = env.step(info["legal_ids"][:, 0])
    assert np.shares_memory(obs, after) and not np.array_equal(kept, obs)
    assert np.shares_memory(info["action_mask"], info_after["action_mask"])
    assert not np.array_equal(mask, info["action_mask"])
    _, *paid, _ = env.step(info_after["legal_ids"][:, 0])
    for first, second in zip((rewards, terminated, truncated), paid, strict=True):
        assert not np.shares_memory(first, second)


def test_a_caller_cannot_write_into_the_boards() -> None:
    env = make(copy=False, observation="positions", mask="ids")
    obs, info = env.reset(seed=0)
    for array in (obs, info["legal_ids"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"observation": "fen"}, "observation is 'fen': expected one of planes, positions"),
        ({"observation": None}, "observation is None"),
        ({"mask": "packed"}, "mask is 'packed': expected one of dense, bits, ids"),
        ({"mask": ["ids"]}, "mask is"),
        ({"copy": 0}, "copy is 0: expected True or False"),
    ],
)
def test_an_unknown_form_is_refused_by_value_before_anything_starts(
    arguments: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("an evaluator was made")

    monkeypatch.setattr("chess_env.vector_env.make_settings", fail)
    with pytest.raises(ValueError, match=message):
        ChessSelfPlayVectorEnv(**arguments)


LEGAL_SETS = st.lists(
    st.tuples(
        st.sets(st.integers(0, NUM_ACTIONS - 1), min_size=1, max_size=218),
        st.floats(0, 1, exclude_max=True),
    ),
    min_size=1,
    max_size=4,
)


@given(LEGAL_SETS)
def test_a_sampled_bit_is_the_legal_action_of_that_number(
    rows: list[tuple[set[int], float]],
) -> None:
    masks = np.zeros((len(rows), NUM_ACTIONS), np.uint8)
    for mask, (legal, _) in zip(masks, rows, strict=True):
        mask[list(legal)] = 1
    uniforms = np.array([uniform for _, uniform in rows])
    sampled = sample_action_bits(bits_of(masks), uniforms)
    assert sampled.dtype == np.int64
    for action, (legal, uniform) in zip(sampled, rows, strict=True):
        assert action == sorted(legal)[int(uniform * len(legal))]


@pytest.mark.parametrize(
    ("bits", "uniforms", "message"),
    [
        (np.ones((2, 29), np.uint64), np.zeros(2), r"bits are uint64 \[2, 29\].*uint64 \[N, 30\]"),
        (np.ones((2, 30), np.int64), np.zeros(2), "bits are int64"),
        (np.ones((2, 30), np.uint64), np.zeros(3), r"uniforms float64 \[3\]"),
        (np.ones((2, 30), np.uint64), np.zeros(2, np.float32), "uniforms float32"),
        (np.zeros((1, 30), np.uint64), np.zeros(1), "board 0 has 0 legal actions"),
        (np.ones((2, 30), np.uint64), np.array([0.5, 1.0]), "board 1 .* the uniform 1.0"),
        (np.ones((1, 30), np.uint64), np.array([np.nan]), "the uniform nan"),
    ],
)
def test_bits_that_cannot_be_sampled_from_are_refused(
    bits: Any, uniforms: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sample_action_bits(bits, uniforms)
