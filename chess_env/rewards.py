"""Engine scores -> rewards, as array functions that both environments share.

A reward is a weighted sum of *named terms*; a name never changes its meaning. Every term is seen from the player who
made the move, is float32 and is computed here for `env.py` and `vector_env.py` alike, so that the two pay bit-identical
rewards. Scores are centipawns from the side to move's view; mate in n is +-(10000 - n).

===================  ==========  =======================================================================================
term                 range       meaning
===================  ==========  =======================================================================================
`win_prob_delta`     [-2, 2]     change of Phi = 2 Win% - 1 (Lichess: Win% = 1 / (1 + exp(-0.00368208 cp)))
`cp_delta`           [-4, 4]     change of the score in units of 1,000 centipawns, the score clipped to +-2,000
`clip2000_delta`     [-2, 2]     change of clip(cp, +-2000) / 2000
`clip1000_delta`     [-2, 2]     change of clip(cp, +-1000) / 1000
`clip500_delta`      [-2, 2]     change of clip(cp, +-500) / 500
`tanh400_delta`      [-2, 2]     change of tanh(cp / 400)
`asinh400_delta`     [-2, 2]     change of asinh(cp / 400) / asinh(25): it never saturates, up to mate
`mate_delta`         [-.66,.66]  change of .011 (8 - n) for a mate in n moves, of 0 for scores of no mate: see below
`regret`             [-2, 0]     Phi (win probability) of the move played minus that of the best move; 0 is a best move
`success`            {0, 1}      1 where Phi (win probability) falls by less than .1, which is no inaccuracy on Lichess
`outcome`            {-1, 0, 1}  1 for giving mate, -1 for being mated (opponent mode only), 0 for draws and all else
===================  ==========  =======================================================================================

A delta is Phi after the move minus Phi before it, both from the mover's view. In self-play the other side is to move
afterwards, so r_t = -Phi(s_{t+1}) - Phi(s_t) and the alternating sum of (-1)^t r_t telescopes (at gamma = 1 only).
Against an opponent the next state is the learner's own turn, so r_t = Phi(s_{t+1}) - Phi(s_t) and the plain sum does.

`mate_delta` pays .011 for each move that a mate comes nearer, where `win_prob_delta` pays nothing: win probability is 1
for all of them. A won position whose mate is not known counts as a mate in 8, and one beyond 38 moves as one in 38, so
that finding a mate changes little and giving away the win costs more than any detour. The mate itself is n = 0.

`success` is for algorithms that learn from success and failure. A fall of Phi by .1 is one of Win% by 5 points, some 54
centipawns in an even position, from which on Lichess speaks of an inaccuracy (lila, `Advice.scala`). Of uniformly
random moves from the default starts 27 % succeed by the built-in evaluator: 11 % within 500 centipawns of equality,
37 % in won positions and 86 % in lost ones, where little is left to give up.

The default is `win_prob_delta+mate_delta`.

A term of one's own is a function, given itself or as `module:name`: see `RewardTerm`. Terms are added up with weights,
as a mapping or as text: `win_prob_delta+0.5*cp_delta`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chess_env.custom_objects import is_spec, label_of, load_object, meant, shown, spec_of

RewardTerm: TypeAlias = Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.float32]]
"""A term of one's own: (after_cp, before_cp), int32 [N] each -> float32 [N], finite.

Both scores are centipawns in the view of the player who moved, after the move and before it; mate in n is
+-(10000 - n), and where the rules end the game after_cp is 10000 for giving mate and 0 for a draw. Row i of the
answer depends on row i alone.
"""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_NAME = r"[^\W\d][\w.]*(?::[^\W\d][\w.]*)?"
_PART = re.compile(rf"\s*(?P<sign>[+-]?)\s*(?:(?P<weight>{_NUMBER})\s*\*\s*)?(?P<name>{_NAME})\s*")


def parse_sum(text: str) -> dict[str, float]:
    """Term name -> weight, in the order of the text; the terms' names are not looked up.

    Args:
        text: terms joined by + and -, each with `NUMBER*` in front where its weight is not 1.

    Raises:
        ValueError: not such a sum, or a term that stands there twice.
    """
    weights: dict[str, float] = {}
    position = 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or (position > 0 and not part["sign"]):
            raise ValueError(
                f"reward is {shown(text)}, of which {shown(text[position:])} is no term: expected terms joined by + "
                "and -, each NAME or NUMBER*NAME, as in win_prob_delta+0.5*cp_delta"
            )
        if part["name"] in weights:
            raise ValueError(
                f"reward is {shown(text)}: {part['name']} stands there twice; add its weights up"
            )
        weight = float(part["weight"] or 1)
        weights[part["name"]] = -weight if part["sign"] == "-" else weight
        position = part.end()
    if not weights:
        raise ValueError(f"reward is {shown(text)}: name at least one term, such as win_prob_delta")
    return weights


def sum_text(weights: Mapping[str, float]) -> str:
    """The text that `parse_sum` reads back into these weights, exactly."""
    text = ""
    for name, weight in weights.items():
        sign = "-" if weight < 0 else "+" if text else ""
        size = abs(float(weight))
        text += f"{sign}{name}" if size == 1 else f"{sign}{size!r}*{name}"
    return text


def load_term(term: Any, known: Sequence[str]) -> RewardTerm:
    """The function that a term is, or that `module:name` names.

    Args:
        term: A function or a name.
        known: The project's own terms, for the message.

    Raises:
        ValueError: There is none.
    """
    if isinstance(term, str) and not is_spec(term):
        raise ValueError(
            f"reward term is {shown(term)}: expected one of {', '.join(known)}, or module:name of your own"
            f"{meant(term, known)}"
        )
    found: RewardTerm = load_object(term, "reward term") if isinstance(term, str) else term
    if not callable(found) or isinstance(found, type):
        raise ValueError(
            f"reward term {shown(term)} is a {type(found).__name__}: expected a function "
            "(after_cp, before_cp) -> float32 [N]"
        )
    return found


def paid_by(
    term: RewardTerm, name: str, after_cp: NDArray[Any], before_cp: NDArray[Any]
) -> NDArray[np.float32]:
    """float32 [N]: what the term pays, after its dtype, shape and values were checked.

    Args:
        term: The function.
        name: Its name, for the message.
        after_cp: int [N], scores after the moves, mover's view.
        before_cp: int [N], scores before them, mover's view.

    Raises:
        ValueError: The term gives another dtype or shape, or a value that is not finite.
    """
    after, before = after_cp.astype(np.int32), before_cp.astype(np.int32)
    paid = term(after, before)
    wanted = f"float32 {list(before.shape)}, a finite value for each move"
    if not isinstance(paid, np.ndarray):
        raise ValueError(
            f"reward term {shown(name)} gave a {type(paid).__name__}: expected {wanted}"
        )
    if paid.dtype != np.float32 or paid.shape != before.shape:
        raise ValueError(
            f"reward term {shown(name)} gave {paid.dtype} {list(paid.shape)}: expected {wanted}"
        )
    if not np.isfinite(paid).all():
        row = int((~np.isfinite(paid)).argmax())
        raise ValueError(
            f"reward term {shown(name)} gave {paid[row]} for after_cp {after[row]} and before_cp {before[row]}: "
            f"expected {wanted}"
        )
    return paid


DEFAULT_REWARD = "win_prob_delta+mate_delta"
"""Where engine scores are paid for and no term is named."""

MATE_SCORE_CP = 10_000
MAX_CP = 9_800  # chess_env.evaluators.MAX_CP, repeated like CHECKMATE: scores beyond it are mates
ILLEGAL_REWARD = -1.0
CHECKMATE = 1  # chess_env.rules.CHECKMATE, repeated so that this module stays NumPy only
# NumPy compares with an array of one type in half the time of a number, and takes a type sooner than its class.
_CHECKMATE, _FLOAT32 = np.array(CHECKMATE, np.int8), np.dtype(np.float32)

Float32 = NDArray[np.float32]
Reward: TypeAlias = str | RewardTerm | Mapping[Any, float] | None
"""A reward setting, see `make_reward`."""


def _odd_table(half: NDArray[np.float64]) -> Float32:
    """[20001] float32 table from its values at 0..10000; exactly odd, so that Phi of a flipped score is -Phi."""
    positive = half.astype(np.float32)
    table = np.concatenate([-positive[:0:-1], positive])
    table.setflags(write=False)
    return table


def _value_tables() -> dict[str, Float32]:
    score_cp = np.arange(MATE_SCORE_CP + 1, dtype=np.float64)
    # Element by element through `math`: libm's exp and tanh do not depend on NumPy's SIMD dispatch.
    win_prob = np.array([2.0 / (1.0 + math.exp(-0.00368208 * cp)) - 1.0 for cp in score_cp])
    tanh400 = np.array([math.tanh(cp / 400.0) for cp in score_cp])
    asinh400 = np.array([math.asinh(cp / 400.0) / math.asinh(25.0) for cp in score_cp])
    mate_in = MATE_SCORE_CP - score_cp
    mate = np.where(score_cp > MAX_CP, 0.011 * np.maximum(8.0 - mate_in, -30.0), 0.0)
    halves = {
        "win_prob": win_prob,
        "cp": np.minimum(score_cp, 2000.0) / 1000.0,
        "clip2000": np.minimum(score_cp, 2000.0) / 2000.0,
        "clip1000": np.minimum(score_cp, 1000.0) / 1000.0,
        "clip500": np.minimum(score_cp, 500.0) / 500.0,
        "tanh400": tanh400,
        "asinh400": asinh400,
        "mate": mate,
    }
    return {transform: _odd_table(half) for transform, half in halves.items()}


VALUE: dict[str, Float32] = _value_tables()
"""Transform name -> float32 [20001], Phi of the score `index - 10000` centipawns, from the side the score is for."""

_DELTA_TRANSFORM = {f"{transform}_delta": transform for transform in VALUE}
REWARDS: tuple[str, ...] = (*_DELTA_TRANSFORM, "regret", "success", "outcome")
"""Names of all reward terms."""

SUCCESS = "success"
"""The reward of algorithms that learn from success (1) and failure (0) alone."""

_INACCURACY = np.float32(0.1)  # a fall of Phi


def can_be_success(reward: str) -> bool:
    """Whether a sum of terms may pay 0 and 1 alone; what a term of one's own pays is not known before it does.

    `success` does, and `outcome` in self-play. Other weights and sums of the project's own terms pay other amounts.

    Raises:
        ValueError: The text is no sum of terms.
    """
    weights = parse_sum(reward)
    return weights in ({SUCCESS: 1.0}, {"outcome": 1.0}) or not set(weights) <= set(REWARDS)


def value(score_cp: Any, transform: str = "win_prob") -> Float32:
    """float32 array, Phi of `score_cp` (integers, centipawns, any shape), from the same side's view.

    Raises:
        ValueError: Unknown transform, or a score outside +-10000.
    """
    if transform not in VALUE:
        raise ValueError(f"transform is {transform!r}: expected one of {', '.join(VALUE)}")
    return VALUE[transform][_index_of(score_cp)]


def _index_of(score_cp: Any) -> NDArray[np.int64]:
    """int64 array, the place of each score (any shape) in the tables of `VALUE`.

    Raises:
        ValueError: A score outside +-10000.
    """
    scores = np.asarray(score_cp)
    if scores.size and (scores.min() < -MATE_SCORE_CP or scores.max() > MATE_SCORE_CP):
        worst = scores.flat[np.abs(scores).argmax()]
        raise ValueError(
            f"score_cp is {worst}: expected -10000..10000 (mate in n is +-(10000 - n)); "
            "fix the evaluator that returned it"
        )
    return scores.astype(np.int64) + MATE_SCORE_CP


def terminal_score_cp(status: Any) -> NDArray[np.int32]:
    """int32 in the shape of `status`: the side to move's score, -10000 when it is mated, 0 for every draw.

    Args:
        status: Codes of `chess_env.rules` (any shape), all of ended games.
    """
    mated = np.asarray(status) == CHECKMATE
    return np.where(mated, -MATE_SCORE_CP, 0).astype(np.int32)


def _mover_view(mine: Float32, same_side: Any) -> Float32:
    """A value for the side to move after the step, from the view of the player who made the move."""
    return -mine if same_side is False else np.where(same_side, mine, -mine)


def _outcome(status_after: NDArray[np.int8], same_side: Any) -> Float32:
    mated = (status_after == _CHECKMATE).astype(_FLOAT32)
    return mated if same_side is False else np.where(same_side, -mated, mated)


@dataclass(frozen=True)
class RewardFunction:
    """Weighted sum of named terms; build it with `make_reward`.

    Attributes:
        weights: Term name -> weight; the sum runs in this order.
        custom: Term name -> function, of the terms that are not in `REWARDS`.
    """

    weights: Mapping[str, float]
    custom: Mapping[str, RewardTerm] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the terms, in the order they are added up."""
        return tuple(self.weights)

    @cached_property
    def needs_scores(self) -> bool:
        """True when a term compares the scores before and after the move."""
        return any(
            name in _DELTA_TRANSFORM or name == SUCCESS or name in self.custom
            for name in self.weights
        )

    @cached_property
    def needs_move_scores(self) -> bool:
        """True when a term compares the move played with all legal moves (`Evaluator.score_moves`)."""
        return "regret" in self.weights

    @cached_property
    def needs_evaluator(self) -> bool:
        """True when a term reads any score; `outcome` alone is paid by the rules."""
        return self.needs_scores or self.needs_move_scores

    def __call__(
        self,
        status_after: Any,
        same_side: Any,
        score_before_cp: Any = None,
        score_after_cp: Any = None,
        move_scores: tuple[Any, Any] | None = None,
    ) -> tuple[Float32, dict[str, Float32]]:
        """Total float32 [N] and the raw (unweighted) terms, name -> float32 [N], for N moves.

        Args:
            status_after: int8 [N], rules' status code after the step.
            same_side: bool [N], True where the mover is to move again (opponent mode); False: nowhere (self-play).
            score_before_cp: int [N], score of the position moved from, side to move's (= the mover's) view.
            score_after_cp: int [N], score after the step, from the side to move there; terminal by the rules.
            move_scores: (best, played), int [N] each: the best and the played child's score, mover's view.

        Raises:
            ValueError: An input that a term needs is missing, a score is outside +-10000, or a term of one's own
                gives what is no reward.
        """
        status = np.asarray(status_after)
        if self.needs_scores and (score_before_cp is None or score_after_cp is None):
            raise ValueError(
                f"reward terms {self.names} need score_before_cp and score_after_cp; got None"
            )
        terms: dict[str, Float32] = {}
        if self.needs_scores:  # once for all terms
            before_at, after_at = _index_of(score_before_cp), _index_of(score_after_cp)
        for name in self.weights:
            if name in _DELTA_TRANSFORM:
                table = VALUE[_DELTA_TRANSFORM[name]]
                terms[name] = _mover_view(table[after_at], same_side) - table[before_at]
            elif name == SUCCESS:
                win_prob = VALUE["win_prob"]
                gained = _mover_view(win_prob[after_at], same_side) - win_prob[before_at]
                terms[name] = (gained > -_INACCURACY).astype(_FLOAT32)
            elif name == "outcome":
                terms[name] = _outcome(status, same_side)
            elif name in self.custom:
                before, after = np.asarray(score_before_cp), np.asarray(score_after_cp)
                mine = np.where(same_side, after, -after)
                terms[name] = paid_by(self.custom[name], name, mine, before)
            else:
                if move_scores is None:
                    raise ValueError(
                        "reward term 'regret' needs move_scores; got None: give the centipawns of the best "
                        "move and of the one played"
                    )
                best_cp, played_cp = move_scores
                terms[name] = value(played_cp) - value(best_cp)
        total: Float32 | None = None
        for name, weight in self.weights.items():
            part = terms[name].copy() if weight == 1.0 else np.float32(weight) * terms[name]
            total = part if total is None else total + part
        assert total is not None  # make_reward refuses an empty mapping
        return total, terms


def make_reward(reward: Reward, has_evaluator: bool) -> RewardFunction:
    """The reward function for a reward setting.

    Args:
        reward: None (`DEFAULT_REWARD`; without an evaluator `outcome`), a term, a sum of terms as text
            (`win_prob_delta+0.5*cp_delta`), or a mapping of term to weight. A term is a name in `REWARDS`,
            `module:name` or a function (`RewardTerm`).
        has_evaluator: False for evaluator "none"; then only `outcome` can be paid.

    Raises:
        ValueError: Unknown term, empty mapping, non-finite weight, or a scored term without an evaluator.
    """
    if reward is None:
        reward = DEFAULT_REWARD if has_evaluator else "outcome"
    weights: dict[str, float] = {}
    custom: dict[str, RewardTerm] = {}
    for term, weight in _weighted(reward).items():
        name = term if isinstance(term, str) else label_of(term)
        if name not in REWARDS:
            custom[name] = load_term(term, REWARDS)
        if not isinstance(weight, int | float | np.number) or not np.isfinite(weight):
            raise ValueError(
                f"weight of reward term {shown(name)} is {weight!r}: expected a finite number"
            )
        if name != "outcome" and not has_evaluator:
            raise ValueError(
                f"reward term {shown(name)} needs engine scores, but evaluator is 'none': "
                "use reward='outcome', or evaluator='auto', 'builtin' or 'stockfish:depth=4'"
            )
        weights[name] = float(weight)
    return RewardFunction(weights, custom)


def reward_text(reward: Reward) -> str | None:
    """The reward setting as text, for records: `make_reward` reads it back in another process.

    Args:
        reward: As of `make_reward`.

    Raises:
        ValueError: No reward setting, or a function that cannot be found again by its name.
    """
    if reward is None or isinstance(reward, str):
        return reward
    return sum_text(
        {
            term if isinstance(term, str) else spec_of(term, "reward term"): weight
            for term, weight in _weighted(reward).items()
        }
    )


def _weighted(reward: Any) -> Mapping[Any, Any]:
    """Term -> weight, as given; the terms are names or functions."""
    if isinstance(reward, str):
        return parse_sum(reward)
    if callable(reward):
        return {reward: 1.0}
    if not isinstance(reward, Mapping):
        raise ValueError(
            f"reward is {shown(reward)}: expected None, a term's name, a function, or a mapping of term to weight; "
            f"terms: {', '.join(REWARDS)}"
        )
    if not reward:
        raise ValueError("reward is an empty mapping: name at least one term, e.g. {'outcome': 1}")
    return reward
