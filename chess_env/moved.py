"""Old import paths: they work and say where their module is now.

A finder at the end of `sys.meta_path` reads the table, so it costs nothing until such a path is imported.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from importlib.abc import Loader

Homes = Mapping[str, tuple[str, ...]]
"""Old dotted name of a module -> the modules that have its contents now."""

MOVED: Homes = {
    f"chess_env.{old}": (f"chess_env.{new}",)
    for room, names in {
        "custom_objects": "own_objects",
        "rules.": "bitboards movegen fen random_play",
        "evaluators.builtin.": "evaluators.piece_square_tables evaluators.static_evaluation "
        "evaluators.exchange evaluators.quiescence evaluators.tactical_moves",
        "positions.": "start_positions phase_mix openings derived_positions decided_positions "
        "position_files heldout heldout_build",
        "rewards.": "reward_terms",
        "games.": "lockstep boards settings scoring reference_game rendering vector_info "
        "vector_inputs players material",
        "matches.": "arena match_openings match_result",
        "testing": "testing.contract",
    }.items()
    for old in names.split()
    for new in (room + old.rpartition(".")[2] if room.endswith(".") else room,)
}


class OldPaths:
    """Finds the old names of a table, for `sys.meta_path`.

    Args:
        homes: old module -> modules of today.
        renamed: old name of a class or function -> its name of today.
    """

    def __init__(self, homes: Homes, renamed: Mapping[str, str]) -> None:
        self._homes = homes
        self._renamed = renamed

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module that hands on what its homes have; None where the name is not in the table."""
        if fullname not in self._homes:
            return None
        package = any(name.startswith(f"{fullname}.") for name in self._homes)
        loader = _Forwarder(self._homes[fullname], self._renamed)
        return ModuleSpec(fullname, cast("Loader", loader), is_package=package)


class _Forwarder:
    """Loads a module whose attributes are those of other modules.

    Not a subclass of `importlib.abc.Loader`, the import of which would take longer than this package's own.
    """

    def __init__(self, homes: tuple[str, ...], renamed: Mapping[str, str]) -> None:
        self._homes = homes
        self._renamed = renamed

    def create_module(self, spec: ModuleSpec) -> None:
        """Nothing: Python makes the module itself."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        homes = [importlib.import_module(home) for home in self._homes]
        warnings.warn(
            f"{name} has moved: import from {' or '.join(self._homes)}",
            FutureWarning,
            stacklevel=2,
        )

        def find(attribute: str) -> Any:
            for wanted in (attribute, self._renamed.get(attribute, attribute)):
                for home in homes:
                    if hasattr(home, wanted):
                        return getattr(home, wanted)
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

        module.__getattr__ = find  # type: ignore[method-assign]
