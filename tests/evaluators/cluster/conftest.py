"""A cluster of two nodes on this machine, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.evaluators.cluster.nodes_here import nodes_here


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with nodes_here([{"num_cpus": 1}, {"num_cpus": 1, "node_name": "second"}]) as cluster:
        yield cluster
