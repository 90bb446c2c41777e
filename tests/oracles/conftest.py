from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.oracles import vectors

DTYPES = {"float64": torch.float64, "float32": torch.float32}


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return vectors.load()


@pytest.fixture(params=list(DTYPES))
def dtype(request: pytest.FixtureRequest) -> Iterator[torch.dtype]:
    """Float64 all the way, or float32 all the way, also in what is made without a dtype."""
    chosen, before = DTYPES[request.param], torch.get_default_dtype()
    torch.set_default_dtype(chosen)
    yield chosen
    torch.set_default_dtype(before)
