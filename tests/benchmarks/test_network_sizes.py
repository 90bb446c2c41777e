"""The counted sizes of the networks, against the numbers by hand."""

from __future__ import annotations

from algorithms.networks.settings import SIZES, NetworkConfig
from benchmarks.networks.sizes import LEGAL_MOVES, counts, table
from chess_env.move_facts import NUM_MOVE_FACTS
from chess_env.moves import NUM_ACTIONS
from chess_env.observation import NUM_PLANES


def test_the_counts_of_a_move_net_are_those_by_hand() -> None:
    channels, width = 64, 64
    parameters, products = counts(NetworkConfig(network="move_net", channels=channels, blocks=0))
    embedding = NUM_PLANES * channels + 64 * channels + 2 * channels
    move = 2 * channels * width + NUM_MOVE_FACTS * width + width
    pair = 2 * channels * width // 2
    biases = width + 2 * width // 2 + NUM_ACTIONS + 5
    assert parameters == embedding + move + pair + channels * width + NUM_ACTIONS * width + biases
    of_squares = 64 * NUM_PLANES * channels + channels * width
    assert products == of_squares + LEGAL_MOVES * (move + pair)


def test_the_counts_of_attention_are_those_by_hand() -> None:
    sizes = {"channels": 32, "head_dim": 16}
    one, two = (counts(NetworkConfig(network="transformer", blocks=n, **sizes)) for n in (1, 2))
    layers = 32 * 96 + 32 * 32 + 2 * 32 * 64
    assert two[0] - one[0] == layers + 96 + 32 + 64 + 32 + 4 * 32
    assert two[1] - one[1] == 64 * layers + 2 * 64 * 64 * 32


def test_the_table_has_a_row_for_every_network_and_size() -> None:
    rows = [(row["network"], row["size"]) for row in table()]
    assert rows == [(network, size) for network, sizes in SIZES.items() for size in sizes]
