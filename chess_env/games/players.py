"""Players: anything that chooses moves for a batch of positions. Used as opponents, and in matches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import chess
import numpy as np
from numpy.typing import NDArray

from chess_env.custom_objects import shown
from chess_env.evaluators import (
    Evaluator,
    StockfishEvaluator,
    is_evaluator_name,
    is_foreign_evaluator,
    make_evaluator,
    of_version,
)
from chess_env.evaluators.protocol import scores_of
from chess_env.move_facts import FactsAsked
from chess_env.moves import move_to_action
from chess_env.rules.fen import to_fen
from chess_env.rules.packed import OWN, PAWNS, Positions
from chess_env.rules.rules import (
    CHECKMATE,
    FIFTY_MOVES,
    ONGOING,
    apply_batch,
    children,
    legal_actions_batch,
    status_batch,
)

if TYPE_CHECKING:
    from chess_env.games.so_far import GamesSoFar

Actions = NDArray[np.int64]
Generators = Sequence[np.random.Generator]

_NAMES = ("random", "material", "engine:nodes=1", "builtin", "stockfish:nodes=1", "auto")
_EXPECTED = (
    "'random', 'material', 'engine:nodes=1' (Stockfish's own move), an evaluator's name such as 'builtin' or "
    "'stockfish:nodes=1' (the move that it scores best), or any of them with '@random=SHARE' behind it"
)
_MIXED = re.compile(r"(?P<player>.+)@random=(?P<share>[^@]+)")


@runtime_checkable
class Player(Protocol):
    """Chooses moves.

    For seeded games to be reproducible whatever the batch, a player draws board k's randomness from
    `rngs[k]` only, and as much of it whatever the other boards are.

    It may look at more than positions, by one or more of these methods, which give what `choose` gives:
    `choose_with_history(positions, repetitions, rngs)`, integer [N] earlier occurrences of each position in its game;
    `choose_with_facts(positions, repetitions, move_facts, rngs)`, uint8 [N, L, F] facts of each legal move
    (`chess_env.move_facts`), those that its attribute `reads_move_facts` names; and
    `choose_in_games(positions, games, rngs)`, `GamesSoFar` that end in the positions.

    Attributes:
        name: Says what plays, in tables and error messages.
    """

    name: str

    def choose(self, positions: Positions, rngs: Generators) -> NDArray[np.integer]:
        """Integer [N], a legal action for the side to move of each packed position (uint64 [N, 8])."""
        ...

    def close(self) -> None:
        """Frees what the player holds. May be called twice."""
        ...


def ask(
    player: Player,
    positions: Positions,
    repetitions: NDArray[np.integer],
    rngs: Generators,
    move_facts: NDArray[np.uint8] | None = None,
    games: GamesSoFar | None = None,
) -> Actions:
    """int64 [N]: the player's actions, told of the game so far what it looks at and is given here."""
    asked: Any = player
    if move_facts is not None and reads_move_facts(player):
        chosen = asked.choose_with_facts(positions, repetitions, move_facts, rngs)
    elif games is not None and reads_games(player):
        chosen = asked.choose_in_games(positions, games, rngs)
    # `isinstance` of a protocol takes longer than a ply of all the boards' rules.
    elif getattr(player, "choose_with_history", None) is not None:
        chosen = asked.choose_with_history(positions, repetitions, rngs)
    else:
        chosen = player.choose(positions, rngs)
    return checked_choice(player, chosen, len(positions))


def checked_choice(player: Player, chosen: Any, count: int) -> Actions:
    """int64 [N]: what a player chose; whether the actions are legal is looked at where they are played.

    Raises:
        ValueError: not one whole number for each position.
    """
    found = np.asarray(chosen)
    if found.shape != (count,) or (count and found.dtype.kind not in "iu"):
        raise ValueError(
            f"player {player.name!r} chose {found.dtype} {list(found.shape)} in {count} positions: expected integer "
            f"[{count}], an action id for each"
        )
    return found.astype(np.int64)


def reads_move_facts(player: Player) -> FactsAsked:
    """Which facts of each legal move the player looks at."""
    return getattr(player, "reads_move_facts", False)


def reads_games(player: Player) -> bool:
    """Whether the player looks at the game so far."""
    return getattr(player, "choose_in_games", None) is not None


class RandomPlayer:
    """Plays every legal move with equal probability."""

    name = "random"

    def choose(self, positions: Positions, rngs: Generators) -> Actions:
        """int64 [N]; one `integers` draw per board."""
        legal_ids, num_legal = legal_actions_batch(positions)
        slots = [rng.integers(count) for rng, count in zip(rngs, num_legal.tolist(), strict=True)]
        return legal_ids[np.arange(len(slots)), slots].astype(np.int64)

    def close(self) -> None:
        """Does nothing: there is nothing to free."""


class GreedyPlayer:
    """Plays the move after which the evaluator scores the position best (one ply of look-ahead).

    Ties go to the lowest action id, so no randomness is drawn. In a match it knows the game so far: a move
    to a position that has occurred in it, or that the fifty-move rule ends, is worth a draw. The second
    occurrence counts already, as it does in the search of an engine: a third one could be the opponent's
    choice. Asked about a position alone, it sees neither repetitions nor the rule-50 clock.
    """

    def __init__(self, evaluator: Evaluator, *, owns_evaluator: bool = False) -> None:
        self.evaluator = evaluator
        self.name = f"greedy({evaluator.id})"
        self._owns_evaluator = owns_evaluator

    def choose(self, positions: Positions, rngs: Generators) -> Actions:
        """int64 [N]; all children of all boards go to the evaluator in one batch."""
        return self.choose_in_games(positions, None, rngs)

    def choose_in_games(
        self, positions: Positions, games: GamesSoFar | None, rngs: Generators
    ) -> Actions:
        """int64 [N], as `choose`; moves that repeat a position or end the game by the fifty-move rule are draws."""
        families = [children(position) for position in positions]
        # A child is scored for the player to move there: the mover's best is the smallest score.
        scores_cp = scores_of(self.evaluator, np.concatenate([boards for boards, _ in families]))
        chosen, start = [], 0
        for board, (after, actions) in enumerate(families):
            stop = start + len(actions)
            own_cp = scores_cp[start:stop]
            if games is not None:
                drawn = games.occurred(board, after) | (status_batch(after) == FIFTY_MOVES)
                own_cp = np.where(drawn, 0, own_cp)
            chosen.append(int(actions[np.argmin(own_cp)]))
            start = stop
        return np.array(chosen, np.int64)

    def close(self) -> None:
        """Closes the evaluator if this player made it."""
        if self._owns_evaluator:
            self.evaluator.close()


class EnginePlayer:
    """Plays Stockfish's own move within the evaluator's limit.

    In a match the engine is told the game so far, as by any client (`position fen ... moves ...`). It is
    cleared before each move, so that a move depends on the game and the limit alone and a match repeats
    exactly; under a client that clears once a game it also remembers its own earlier searches. Asked about
    a position alone, it sees neither repetitions nor the rule-50 clock.
    """

    def __init__(self, evaluator: StockfishEvaluator) -> None:
        self.evaluator = evaluator
        self.name = f"engine({evaluator.id})"

    def choose(self, positions: Positions, rngs: Generators) -> Actions:
        """int64 [N]; draws nothing.

        Raises:
            EngineError: positions that no engine survived.
        """
        return self.evaluator.best_moves(positions)

    def choose_in_games(self, positions: Positions, games: GamesSoFar, rngs: Generators) -> Actions:
        """int64 [N], as `choose`; the engine is told the moves of each game."""
        return self.evaluator.best_moves_in_games(games.starts, games.moves)

    def close(self) -> None:
        """Closes the evaluator."""
        self.evaluator.close()


class MixedPlayer:
    """Plays a uniformly random move with probability `random_share`, else the other player's move.

    The weakest engine settings still beat beginners every time. This makes an opponent as weak as wanted.
    """

    def __init__(self, player: Player, random_share: float) -> None:
        if not 0 <= random_share <= 1:
            raise ValueError(f"random_share is {random_share}: expected a probability in 0..1")
        self.player = player
        self.random_share = random_share
        self.reads_move_facts = reads_move_facts(player)
        self.name = f"{player.name}@random={random_share:g}"

    def choose(self, positions: Positions, rngs: Generators) -> Actions:
        """int64 [N]; one `random` draw per board, then the chosen player's own draws."""
        return self.choose_with_history(positions, np.zeros(len(positions), np.int64), rngs)

    def choose_with_history(
        self, positions: Positions, repetitions: NDArray[np.integer], rngs: Generators
    ) -> Actions:
        """int64 [N], as `choose`; the other player gets the repetitions."""
        return self._choose(positions, repetitions, None, None, rngs)

    def choose_with_facts(
        self, positions: Positions, repetitions: Any, move_facts: Any, rngs: Generators
    ) -> Actions:
        """int64 [N], as `choose`; the other player gets the repetitions and the facts."""
        return self._choose(positions, repetitions, move_facts, None, rngs)

    def choose_in_games(self, positions: Positions, games: GamesSoFar, rngs: Generators) -> Actions:
        """int64 [N], as `choose`; the other player gets the games, where it looks at them, or the repetitions."""
        return self._choose(positions, games.repetitions, None, games, rngs)

    def _choose(
        self,
        positions: Positions,
        repetitions: Any,
        move_facts: Any,
        games: GamesSoFar | None,
        rngs: Generators,
    ) -> Actions:
        actions = np.empty(len(positions), np.int64)
        is_random = np.array([rng.random() < self.random_share for rng in rngs], np.bool_)
        for player, chosen in ((RandomPlayer(), is_random), (self.player, ~is_random)):
            boards = np.flatnonzero(chosen)
            if boards.size:
                actions[boards] = ask(
                    player,
                    positions[boards],
                    repetitions[boards],
                    [rngs[k] for k in boards.tolist()],
                    None if move_facts is None else move_facts[boards],
                    None if games is None else games.of(boards),
                )
        return actions

    def close(self) -> None:
        """Closes the other player."""
        self.player.close()


VALUES_CP = (100, 300, 300, 500, 900)
"""Pawn, knight, bishop, rook, queen, in the order of a packed position's words; no other terms."""

_MATES_CP = 1_000_000  # above every balance


def material_cp(positions: Positions) -> NDArray[np.int64]:
    """int64 [N]: own men minus the other side's, centipawns, from the side to move's view.

    Args:
        positions: uint64 [N, 8], packed.
    """
    men = positions[:, PAWNS : PAWNS + len(VALUES_CP)]
    own = positions[:, OWN, None]
    mine = np.bitwise_count(men & own).astype(np.int64)
    theirs = np.bitwise_count(men & ~own).astype(np.int64)
    return (mine - theirs) @ np.array(VALUES_CP, np.int64)


class MaterialPlayer:
    """Mates where it can, and otherwise plays a move after which its material balance is best.

    Stalemate and insufficient material count as level. Among equal moves one is drawn uniformly: most
    moves win nothing, and the lowest action id each time would only shuffle a piece. It sees neither
    recaptures nor repetitions.
    """

    name = "material"

    def choose(self, positions: Positions, rngs: Generators) -> Actions:
        """int64 [N]; one `integers` draw per board."""
        legal_ids, num_legal = legal_actions_batch(positions)
        counts = num_legal.astype(np.int64)
        actions = legal_ids[np.arange(legal_ids.shape[1]) < counts[:, None]].astype(np.int64)
        after = apply_batch(np.repeat(positions, counts, axis=0), actions)
        status = status_batch(after, fifty_move=False)
        scores_cp = np.where(status == ONGOING, -material_cp(after), 0)
        scores_cp[status == CHECKMATE] = _MATES_CP
        chosen = np.empty(len(positions), np.int64)
        ends = np.cumsum(counts).tolist()
        for board, (end, count) in enumerate(zip(ends, counts.tolist(), strict=True)):
            own = scores_cp[end - count : end]
            best = np.flatnonzero(own == own.max())
            chosen[board] = actions[end - count + best[rngs[board].integers(len(best))]]
        return chosen

    def close(self) -> None:
        """Does nothing: there is nothing to free."""


class FunctionPlayer:
    """Plays what a function of a python-chess board returns.

    Args:
        function: (chess.Board, np.random.Generator) -> chess.Move. The board has no move history.
    """

    def __init__(self, function: Callable[[chess.Board, np.random.Generator], chess.Move]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def choose(self, positions: Positions, rngs: Generators) -> Actions:
        """int64 [N].

        Raises:
            ValueError: The function returned something that is not a legal move; names it and the FEN.
        """
        actions = []
        for position, rng in zip(positions, rngs, strict=True):
            fen = to_fen(position)
            board = chess.Board(fen)
            move = self.function(board.copy(), rng)
            if not isinstance(move, chess.Move) or not board.is_legal(move):
                raise ValueError(
                    f"player {self.name!r} returned {move!r} in {fen!r}: expected a chess.Move "
                    "from board.legal_moves"
                )
            actions.append(move_to_action(move, board.turn))
        return np.array(actions, np.int64)

    def close(self) -> None:
        """Does nothing: there is nothing to free."""


def make_player(player: Any) -> Player:
    """A player from its name, an evaluator, a function, or a player (returned as it is).

    Names: "random"; "material" (greedy for material, one ply); "engine:nodes=100" for Stockfish's own move
    within that limit; an evaluator's name ("builtin", "stockfish:nodes=1", "auto") for the greedy player
    on it, which scores the position after each move; any with "@random=SHARE" behind it for uniformly
    random moves that often.

    Raises:
        ValueError: None of these.
    """
    if isinstance(player, str):
        return _named_player(player)
    if isinstance(player, Player):
        return player
    if isinstance(player, Evaluator):
        return GreedyPlayer(player)
    if callable(player):
        return FunctionPlayer(player)
    raise ValueError(
        f"player is {shown(player)}: expected {_EXPECTED}; or a Player, or a function of "
        "(chess.Board, np.random.Generator)"
    )


def is_foreign_player(name: str) -> bool:
    """Whether this player runs code from outside the project, as `is_foreign_evaluator` tells."""
    mixed = _MIXED.fullmatch(name)
    if mixed is not None:
        return is_foreign_player(mixed["player"])
    return is_foreign_evaluator(re.sub(r"^engine:", "stockfish:", name))


def _named_player(name: str) -> Player:
    mixed = _MIXED.fullmatch(name)
    if mixed is not None:
        try:
            share = float(mixed["share"])
        except ValueError:
            share = float("nan")
        if not 0 <= share <= 1:
            raise ValueError(
                f"player is {shown(name)}: expected a probability behind '@random=', e.g. 'builtin@random=0.3'"
            )
        return MixedPlayer(_named_player(mixed["player"]), share)
    if name == "random":
        return RandomPlayer()
    if name == "material":
        return MaterialPlayer()
    if name.startswith("engine:"):
        evaluator = make_evaluator(f"stockfish-v1:{name.removeprefix('engine:')}", num_engines=2)
        assert isinstance(evaluator, StockfishEvaluator)  # by its name, and without a cache
        return EnginePlayer(evaluator)
    if name == "none":
        raise ValueError(
            "player is 'none', which is no player: leave the name out, or take 'random' (self-play is opponent=None)"
        )
    if not is_evaluator_name(name):
        known = {each.partition(":")[0]: each for each in _NAMES}
        near = difflib.get_close_matches(name.partition(":")[0], known, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"player is {shown(name)}: expected {_EXPECTED}; did you mean {known[near]!r}?"
        )
    # Players keep the scores of version 1, so that results against them can be compared for ever.
    evaluator = make_evaluator(of_version(name, "v1"), num_engines=1, num_threads=1)
    return GreedyPlayer(evaluator, owns_evaluator=True)
