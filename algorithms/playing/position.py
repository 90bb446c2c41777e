"""A position of a game with what its history tells of it, and positions that policies are compared on.

These are one of a game, the probe set, and the held-out table.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import chess
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from algorithms.diagnostics.probe_set import load_probe_set
from algorithms.evaluation.regret import HeldoutSlice, move_regret_cp, prepare_slice
from algorithms.networks.policy_net import PolicyNet
from algorithms.playing.conversation import shown
from chess_env.games.reference_game import identity, observation
from chess_env.move_facts import move_facts_batch, with_further_facts
from chess_env.moves import legal_actions
from chess_env.observation import encode_batch
from chess_env.positions.heldout import load_heldout
from chess_env.rules.fen import board_from_fen, pack_board
from chess_env.rules.packed import Positions
from chess_env.rules.rules import hash_batch


@dataclasses.dataclass(frozen=True)
class GamePosition:
    """A position within a game.

    Attributes:
        board: without its moves; not to be changed.
        repetitions: earlier occurrences of it since the root.
        line: uint64 `[H, 8]`, packed: the positions of the game since the last capture or pawn move, or
            since the root, this one last.
    """

    board: chess.Board
    repetitions: int
    line: Positions = dataclasses.field(compare=False)


def reached(
    fen: str | None, moves: Sequence[str], *, read: Callable[[str], chess.Board] = board_from_fen
) -> GamePosition:
    """The position after `moves` from the root.

    A game that a draw rule has ended goes on: the GUI decides whether to stop.

    Args:
        fen: the root; None for the initial position.
        moves: in UCI's notation, castling as the king's two-square step.
        read: the board of a FEN.

    Raises:
        ValueError: the FEN is not legal, or a move is not; the message names it.
    """
    board = chess.Board() if fen is None else read(fen)
    occurrences: Counter[Hashable] = Counter([identity(board)])
    for number, text in enumerate(moves, 1):
        move = legal_move(board, text)
        if move is None:
            raise ValueError(f"move {number}, {shown(text)}, is not legal in {board.fen()!r}")
        board.push(move)
        occurrences[identity(board)] += 1
    repetitions = occurrences[identity(board)] - 1
    return GamePosition(board.copy(stack=False), repetitions, _line(board))


_NO_GAME = (
    chess.STATUS_NO_WHITE_KING | chess.STATUS_NO_BLACK_KING | chess.STATUS_TOO_MANY_KINGS
    | chess.STATUS_OPPOSITE_CHECK
)  # fmt: skip
_MOST_ATTACKED = 180  # by one side's men, each counted alone: with a first set of them at most 121
_MOST_COUNTED = 32_767  # moves, as of `board_from_fen`; the planes show at most 100


def board_of_gui(fen: str) -> chess.Board:
    """The board of a FEN as board editors and GUIs write it; men of any number may stand on it.

    Castling rights and en passant squares that the men rule out are dropped. The last fields may be missing, or
    "-"; counters are kept within their bounds.

    Raises:
        ValueError: it cannot be read, a side has not one king, or the side to move could take the other's king.
    """
    men, *fields = fen.split() or [""]
    if len(fields) > 5:
        raise ValueError(f"FEN {shown(fen)} has {1 + len(fields)} fields: expected at most 6")
    turn, rights, target, halfmoves, fullmoves = [*fields, *"w--01"[len(fields) :]]
    rights = "".join(sorted(set(rights)))  # capitals first, as python-chess wants them
    counters = [0 if count == "-" else count for count in (halfmoves, fullmoves)]
    try:
        board = chess.Board(f"{men} {turn.lower()} {rights} {target.lower()}")
        counted = [min(int(count), _MOST_COUNTED) for count in counters]
    except ValueError as error:
        raise ValueError(f"FEN {shown(fen)} cannot be read: {error}") from None
    board.halfmove_clock, board.fullmove_number = max(counted[0], 0), max(counted[1], 1)
    board.castling_rights = board.clean_castling_rights()
    if board.status() & chess.STATUS_INVALID_EP_SQUARE:
        board.ep_square = None
    if board.status() & _NO_GAME:
        raise ValueError(
            f"FEN {shown(fen)}: expected one king of each side, and none that the side to move could take"
        )
    return board


def _line(board: chess.Board) -> Positions:
    """uint64 `[H, 8]`, see `GamePosition`; takes the board back to the first of them."""
    line = [pack_board(board)]
    for _ in range(min(board.halfmove_clock, len(board.move_stack))):
        board.pop()
        line.append(pack_board(board))
    return np.array(line[::-1])


def legal_move(board: chess.Board, text: str) -> chess.Move | None:
    """The move in UCI's notation, castling as the king's two-square step; None where it is not legal."""
    try:
        move = board.parse_uci(text.lower())  # some GUIs write e7e8Q
    except ValueError:
        return None
    return move or None  # python-chess takes the null move 0000 for legal


PROBES = "probe"
MINIBATCH_SIZE = 64  # positions per forward pass; memory only


@dataclass(frozen=True, eq=False)
class PositionSet:
    """Positions, ready for a network, and what is known of their moves.

    Attributes:
        names: M names, such as "random_2_40 17".
        positions: uint64 `[M, 8]`, packed.
        obs: uint8 `[M, C, 8, 8]`.
        legal_ids: int16 `[M, L]` action ids, ascending, padded with -1.
        move_facts: uint8 `[M, L, F]` of each legal move, those of `MOVE_FACTS`.
        regret_cp: float64 `[M, L]` regret of each legal move, centipawns, as of `move_regret_cp`; 0 on padding, NaN
            where no score is known.
    """

    names: tuple[str, ...]
    positions: Positions
    obs: NDArray[np.uint8]
    legal_ids: NDArray[np.int16]
    move_facts: NDArray[np.uint8]
    regret_cp: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.names)

    def only(self, row: int) -> PositionSet:
        """The set of one of them, with its legal moves alone."""
        slots = self.legal_ids[row] >= 0
        return PositionSet(
            names=(self.names[row],),
            positions=self.positions[row][None],
            obs=self.obs[row][None],
            legal_ids=self.legal_ids[row][slots][None],
            move_facts=self.move_facts[row][slots][None],
            regret_cp=self.regret_cp[row][slots][None],
        )

    @torch.inference_mode()
    def logprobs(self, policy: PolicyNet, temperature: float) -> NDArray[np.float32]:
        """float32 `[M, L]` log-probabilities of a policy, nats; -inf on padding.

        Args:
            policy: on the CPU.
            temperature: of the softmax.
        """
        found = []
        for start in range(0, len(self), MINIBATCH_SIZE):
            rows = slice(start, start + MINIBATCH_SIZE)
            legal_ids = self.legal_ids[rows]
            facts = read_by(policy, self.move_facts[rows], self.positions[rows], legal_ids)
            seen = torch.from_numpy(self.obs[rows]), torch.from_numpy(legal_ids)
            dist = policy.outputs(*seen, temperature, facts).dist
            found.append(dist.logprobs.float().numpy())
        return np.concatenate(found)


def one_position(position: GamePosition) -> PositionSet:
    """The set of one position of a game, with what occurred before it.

    Its regret is known where it stands in the probe set or the held-out table, whose clocks are 0.

    Raises:
        ValueError: no move is legal in it.
    """
    board = position.board
    actions = legal_actions(board)
    if not len(actions):
        raise ValueError(f"{board.fen()!r} has no legal move: give a position before the end")
    packed = pack_board(board)[None]
    known = None
    if not board.halfmove_clock and not position.repetitions:
        known = _known_regrets().get(int(hash_batch(packed)[0]))
    regret = np.full(len(actions), np.nan) if known is None else known
    return PositionSet(
        names=(board.fen(),),
        positions=packed,
        obs=observation(board, position.repetitions)[None],
        legal_ids=actions[None],
        move_facts=facts_of(position, actions),
        regret_cp=regret[None],
    )


def facts_of(position: GamePosition, actions: NDArray[np.integer]) -> NDArray[np.uint8]:
    """uint8 `[1, L, F]`: the facts of the moves `actions` `[L]`, told what occurred in the game.

    No game has a pawn on its own first rank; on a board of a GUI its double step is not counted among the replies.
    """
    line = position.line
    return move_facts_batch(
        line[-1:],
        actions.astype(np.int16)[None],
        hash_batch(line)[None],
        np.array([len(line)]),
    )


def read_by(
    policy: PolicyNet,
    move_facts: NDArray[np.uint8],
    positions: Positions,
    legal_ids: NDArray[np.int16],
) -> Tensor | None:
    """uint8 `[N, L, F]`: the facts of moves that the policy reads; None where it reads none.

    Args:
        policy: in whose columns they are.
        move_facts: uint8 `[N, L, F']` those of `MOVE_FACTS`.
        positions: uint64 `[N, 8]`, packed.
        legal_ids: int16 `[N, L]`.
    """
    if not policy.reads_move_facts:
        return None
    asked = policy.reads_move_facts
    return torch.from_numpy(with_further_facts(move_facts, positions, legal_ids, asked))


def is_ordinary(board: chess.Board) -> bool:
    """Whether the compiled kernels have room for the moves of both sides; `board_of_gui` lets more men in."""
    try:
        board_from_fen(board.fen())
    except ValueError:
        return False
    theirs = chess.SquareSet(board.occupied_co[not board.turn])
    return sum(len(board.attacks(square)) for square in theirs) <= _MOST_ATTACKED


@lru_cache(maxsize=1)
def heldout_sets() -> dict[str, PositionSet]:
    """The slices of the held-out table by name; their arrays are shared by all callers."""
    table = load_heldout()
    return {name: _of_slice(prepare_slice(table, name)) for name in table.slice_names}


@lru_cache(maxsize=1)
def probe_set() -> PositionSet:
    """The probe positions, on which every run records its policy; its arrays are shared by all callers."""
    probes = load_probe_set()
    return _of_slice(
        HeldoutSlice(
            name=PROBES,
            obs=encode_batch(probes.positions, np.zeros(len(probes), np.uint8)),
            legal_ids=probes.legal_ids.copy(),  # those of the set are read-only
            child_score_cp=probes.child_score_cp.astype(np.float64),
            num_legal=probes.num_legal,
            positions=probes.positions.copy(),
        )
    )


def _of_slice(heldout_slice: HeldoutSlice) -> PositionSet:
    return PositionSet(
        names=tuple(f"{heldout_slice.name} {row}" for row in range(len(heldout_slice.positions))),
        positions=heldout_slice.positions,
        obs=heldout_slice.obs,
        legal_ids=heldout_slice.legal_ids,
        move_facts=heldout_slice.move_facts,
        regret_cp=move_regret_cp(heldout_slice),
    )


@lru_cache(maxsize=1)
def _known_regrets() -> dict[int, NDArray[np.float64]]:
    """Hash of a position -> regret float64 `[L]` of its legal moves, centipawns."""
    found: dict[int, NDArray[np.float64]] = {}
    for at in (probe_set(), *heldout_sets().values()):
        for row, key in enumerate(hash_batch(at.positions)):
            found[int(key)] = at.regret_cp[row][at.legal_ids[row] >= 0]
    return found
