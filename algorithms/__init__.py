"""The algorithms, the regulariser that they share, and everything that trains.

`ALGORITHMS` maps a name to its class and `PRESETS` a name to (algorithm, regulariser config). Both
are resolved on first use, so that importing this package (for `--help`, say) loads no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from algorithms.core.algorithm import Algorithm
    from algorithms.regularization import RegularizerConfig

    ALGORITHMS: dict[str, type[Algorithm]]
    PRESETS: dict[str, tuple[Algorithm, RegularizerConfig]]

__all__ = ["ALGORITHMS", "PRESETS"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from algorithms import presets

    globals().update(ALGORITHMS=presets.ALGORITHMS, PRESETS=presets.PRESETS)
    return globals()[name]
