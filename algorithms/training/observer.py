"""What looks at a run and writes it down; nothing that is learned depends on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from algorithms.config import files as config_file
from algorithms.config.run import EnvConfig, TrainConfig
from algorithms.core.batch import RolloutBatch
from algorithms.diagnostics.entropy_prediction import exact_rewards
from algorithms.diagnostics.signal_chain import Audit, HeldoutMoves, Look, SignalChain
from algorithms.diagnostics.update_diagnostics import PolicyProbe, ProbeRecord, UpdateDiagnostics
from algorithms.evaluation.policy_player import MatchPlay
from algorithms.evaluation.regret import MAIN_SLICE, HeldoutSlice, Regret, prepare_slice, regret_cp
from algorithms.networks.policy_net import PolicyNet
from algorithms.rollouts.collect import Collected
from algorithms.run_folder import checkpoint, environment
from algorithms.run_folder.console import Display
from algorithms.run_folder.progress import Progress
from algorithms.run_folder.run_log import RunLog
from algorithms.run_folder.snapshots import Snapshots
from algorithms.training.session import Session
from algorithms.updates.learner import Learner, NonFiniteDump
from algorithms.updates.training_batch import Targets, TrainingBatch
from algorithms.updates.update import KeepBad, OnStep
from chess_env.custom_objects import is_spec
from chess_env.evaluators import EngineError, Evaluator, make_evaluator
from chess_env.positions.heldout import load_heldout

RowReader = Callable[[Mapping[str, float]], str]
"""Is given every row of the record, and returns a line on how the run does."""

_LONGEST_LABEL = 50  # characters of up to four bytes: a name of a folder has at most 255


class Observed(Protocol):
    """The parts of a run that are evaluated and written down, for every loop.

    Attributes:
        device: where the network lives.
        progress: amounts done; it keeps the lowest regret and entropy.
    """

    device: torch.device
    progress: Progress

    @property
    def policy(self) -> PolicyNet:
        """The network."""
        ...

    def state(self) -> dict[str, Any]:
        """The contents of a checkpoint beside the weights."""
        ...


class RunObserver:
    """Evaluates a run's policy, looks at its updates, and writes rows, probes, checkpoints and snapshots.

    Args:
        session: the run; it has its progress already.
        run_dir: the run folder.
        log: the record.
        display: is shown each row, and told of a checkpoint that could not be written.
        temperature: of the evaluations. That with which the run began, so that its figures stay comparable
            where a controller moves that of the rollouts.
        snapshots: of the run; None for a run that keeps none.
        watch: is given every row; None says nothing.
        cpu_seconds: CPU seconds that the run's processes have used.
        matches: of the policy; None where none is played.
        probe: the fixed positions on which updates are looked at; None for a run that looks at none.
        look_interval: updates between two looks.
        audit: what the signal chain is measured against; None for a run that measures none.
        full: whether the signal chain looks at every step.
        seed: of what it draws.
    """

    def __init__(
        self,
        session: Observed,
        run_dir: Path,
        log: RunLog,
        display: Display,
        *,
        temperature: float,
        snapshots: Snapshots | None = None,
        watch: RowReader | None = None,
        cpu_seconds: Callable[[], float] = environment.cpu_seconds,
        matches: MatchPlay | None = None,
        probe: PolicyProbe | None = None,
        look_interval: int = 1,
        audit: Audit | None = None,
        full: bool = False,
        seed: int = 0,
    ) -> None:
        heldout = load_heldout()
        self._slices = {name: prepare_slice(heldout, name) for name in heldout.slice_names}
        self._temperature = temperature
        self._regret: Regret | None = None
        self._session, self._log, self._display, self._watch = session, log, display, watch
        self._checkpoints, self._snapshots = run_dir / "checkpoints", snapshots
        self._scored_moves = session.progress.scored_moves  # at the last row
        self._lowest_regret_cp = session.progress.best_regret_cp
        self._wall = time.monotonic()
        self._cpu_seconds = cpu_seconds
        self._cpu = cpu_seconds()
        self._matches, self._look_interval, self._looked_s = matches, look_interval, 0.0
        self._diagnostics = None if probe is None else UpdateDiagnostics(probe)
        self._probes = None if probe is None else ProbeRecord(run_dir, probe, display.say)
        self._audit = audit
        self._look: Look | None = None
        self._chain: SignalChain | None = None
        if audit is not None:
            heldout_moves = moves_of(self._slices[MAIN_SLICE], session.policy, audit.worth)
            self._chain = SignalChain(audit, heldout_moves, seed=seed, full=full)
        self._bad = NonFiniteDump(run_dir / "bad_batches", display.say)

    def begin(self) -> None:
        """Measures the untrained policy and writes its checkpoint.

        Raises:
            CheckpointError: the first checkpoint could not be written, without which no run goes on.
        """
        if self._probes is not None:
            self._probes.begin(self._session.policy)
        evaluated = self.evaluate(every_slice=True)
        self._session.progress.start_regret_cp = self.last_regret().per_position_cp
        self.finish({**self.amounts(), **evaluated}, keep=True, first=True)

    def resume(self) -> None:
        """Brings links, old checkpoints, snapshots and probes to where the checkpoint is that the run goes on from."""
        update = self._session.progress.update
        checkpoint.settle(self._checkpoints, update)
        if self._snapshots is not None:
            self._snapshots.resume(update)
        if self._probes is not None:
            self._probes.resume(update)

    def before_update(
        self,
        learner: Learner,
        batch: RolloutBatch,
        targets: Targets,
        *,
        reference: PolicyNet | None,
        temperature: float,
        rate: float,
    ) -> dict[str, float]:
        """Metrics of the costly diagnostics at their interval, else none.

        Args:
            learner: not yet updated on `batch`.
            batch: one rollout.
            targets: from `make_targets`.
            reference: the policy that `kl_ref` is measured to, where there is one.
            temperature: at which the rollout was to be sampled.
            rate: step size by the run's schedule.
        """
        began, found = time.monotonic(), dict[str, float]()
        if self._looks:
            assert self._diagnostics is not None
            found = self._diagnostics.before(learner, batch, targets, reference)
        update = self._session.progress.update
        if self._chain is not None and self._chain.measures(update, self._look_interval):
            try:
                self._look = Look(
                    self._chain,
                    learner,
                    batch,
                    targets,
                    temperature=temperature,
                    update=update,
                    rate=rate,
                )
            except EngineError as error:  # no run needs it to go on
                self._chain = None
                self._display.say(
                    f"WARNING: the signal chain is not measured from here on: {error}"
                )
        self._looked_s = time.monotonic() - began
        return found

    @property
    def on_step(self) -> OnStep | None:
        """What looks at the steps of the next update; None where nothing does."""
        return None if self._look is None else self._step

    def _step(self, training: TrainingBatch, accumulated: list[torch.Tensor]) -> None:
        assert self._look is not None
        began = time.monotonic()
        self._look.step(training, accumulated)
        self._looked_s += time.monotonic() - began

    def after_update(self, learning_rate: float) -> dict[str, float]:
        """The same, of what the update with this step size has done; before it is counted in the progress."""
        if not self._looks and self._look is None:
            return {}
        session, began, found = self._session, time.monotonic(), dict[str, float]()
        if self._looks:
            assert self._diagnostics is not None and self._probes is not None
            found = self._diagnostics.after(session.policy, learning_rate)
            assert self._diagnostics.logprobs is not None
            self._probes.write(session.progress.update + 1, self._diagnostics.logprobs)
        if self._look is not None:
            found, self._look = found | self._look.metrics(), None
        return found | {"time/diagnostics_s": self._looked_s + time.monotonic() - began}

    @property
    def _looks(self) -> bool:
        number = self._session.progress.update + 1
        return self._diagnostics is not None and number % self._look_interval == 0

    @property
    def keep_bad(self) -> KeepBad:
        """What is done with a minibatch of the next update that is not finite."""
        return partial(self._bad.keep, self._session.progress.update)

    def evaluate(self, *, every_slice: bool) -> dict[str, float]:
        """Metrics of the present policy on every held-out slice, or on the main one, whose names have no slice."""
        session, began = self._session, time.monotonic()
        metrics: dict[str, float] = {}
        for name in self._slices if every_slice else [MAIN_SLICE]:
            regret = regret_cp(
                session.policy,
                self._slices[name],
                temperature=self._temperature,
                device=session.device,
            )
            if name == MAIN_SLICE:
                self._regret, done = regret, session.progress
                done.best_regret_cp = min(done.best_regret_cp, regret.regret_cp)
                done.entropy_min = min(done.entropy_min, regret.entropy)
                metrics |= regret.metrics()
            else:
                metrics |= regret.metrics(prefix=f"eval/{name}")
        return metrics | {"time/eval_s": time.monotonic() - began}

    def play(self) -> dict[str, float]:
        """Metrics of games against the opponents of the configuration."""
        return {} if self._matches is None else self._matches.play(self._session.policy)

    def last_regret(self) -> Regret:
        """The main slice's regret at the last evaluation; measured now where there was none."""
        if self._regret is None:  # a finished run was resumed
            self.evaluate(every_slice=True)
        assert self._regret is not None
        return self._regret

    def amounts(self) -> dict[str, float]:
        """Columns of every row: updates, plies and moves done, and the seconds that they took."""
        done, wall, cpu = self._session.progress, time.monotonic(), self._cpu_seconds()
        done.wall_s += wall - self._wall
        done.cpu_s += max(0.0, cpu - self._cpu)
        self._wall, self._cpu = wall, cpu
        return {
            "step": done.update,
            "plies": done.plies,
            "scored_moves": done.scored_moves,
            "time/wall_s": done.wall_s,
            "time/cpu_s": done.cpu_s,
        }

    def write(self, row: Mapping[str, float]) -> None:
        """Writes and shows a row."""
        self._log.write(row)
        self._display.show(row, "" if self._watch is None else self._watch(row))

    def finish(
        self, row: Mapping[str, float], *, keep: bool, first: bool = False, last: bool = False
    ) -> None:
        """Writes and shows the row of an update, and writes a snapshot and a checkpoint where it is time for one.

        Args:
            row: the whole of it.
            keep: whether the policy is kept even where its regret is not the lowest so far.
            first: whether the run begins here.
            last: whether the run ends here. Only at either end is a checkpoint that fails an error;
                in mid-run it is reported and the run goes on.

        Raises:
            CheckpointError: the first or the last checkpoint could not be written.
        """
        self.write(row)
        regret_cp = self._session.progress.best_regret_cp
        best, self._lowest_regret_cp = regret_cp < self._lowest_regret_cp, regret_cp
        due = last or best or keep
        # Before the checkpoint: a run that goes on from there has all snapshots up to it then.
        self._snapshot(at_end=first or last, due=due)
        if due:
            self._checkpoint(best=best, must=first or last)

    def _snapshot(self, *, at_end: bool, due: bool) -> None:
        done, before = self._session.progress, self._scored_moves
        self._scored_moves = done.scored_moves
        if self._snapshots is None or not self._snapshots.due(
            before, done.scored_moves, at_end=at_end, checkpoint=due
        ):
            return
        try:
            self._snapshots.write(done.update, done.scored_moves, self._session.policy.state_dict())
        except checkpoint.CheckpointError as error:  # no run needs it to go on
            self._display.say(f"WARNING: {error}")

    def _checkpoint(self, *, best: bool, must: bool) -> None:
        session = self._session
        try:
            checkpoint.save(
                self._checkpoints,
                session.progress.update,
                weights=session.policy.state_dict(),
                state=session.state(),
                best=best,
            )
        except checkpoint.CheckpointError as error:
            if must:
                raise
            self._display.say(f"WARNING: {error}")

    def close(self) -> None:
        """Closes the record and the opponents."""
        self._log.close()
        if self._matches is not None:
            self._matches.close()
        if self._audit is not None:
            self._audit.close()


def observer_of(
    session: Session,
    run_dir: Path,
    display: Display,
    watch: RowReader | None,
    *,
    resume_at: int | None,
) -> RunObserver:
    """The observer of a run, with everything that its settings ask for.

    Args:
        session: the run; it has its progress already.
        run_dir: the run folder.
        display: shows the run.
        watch: is given every row; None says nothing.
        resume_at: as of `RunLog`.

    Raises:
        ValueError: an opponent of the matches is not there; the folder is as it was.
        RunFolderError: the folder holds another run, or another process writes it.
    """
    config, usage, temperature = session.config, session.usage, session.config.rollout.temperature
    matches = MatchPlay(config.match, config.seed)
    try:
        log = RunLog(
            run_dir, track=config.track, config=config_file.to_dict(config), resume_at=resume_at
        )
    except BaseException:
        matches.close()
        raise
    return RunObserver(
        session,
        run_dir,
        log,
        display,
        temperature=temperature,
        snapshots=Snapshots(run_dir, config.checkpoint_keep, config.total_moves),
        watch=watch,
        cpu_seconds=lambda: environment.cpu_seconds() + usage.others_cpu_s,
        matches=matches,
        probe=PolicyProbe(
            config.env.reward,
            temperature,
            session.device,
            move_facts=session.policy.reads_move_facts,
        ),
        look_interval=config.diagnostics_interval_updates,
        audit=None if config.signal_chain == "off" else audit_of(config.env),
        full=config.signal_chain == "full",
        seed=config.seed,
    )


def audit_of(env: EnvConfig) -> Audit:
    """What a run's signal chain asks: the run's kind of evaluator, or beside one of the user's own the built-in one."""
    name = env.evaluator.removeprefix("ray:")

    def make() -> Evaluator:
        kind = "builtin" if is_spec(name) else name
        return make_evaluator(kind, env.num_engines, num_threads=env.num_threads)

    return Audit(make, env.reward)


def moves_of(positions: HeldoutSlice, policy: PolicyNet, worth: str) -> HeldoutMoves:
    """Held-out positions for the signal chain, on the policy's device.

    Args:
        positions: the slice.
        policy: that is asked; it may read the facts of moves.
        worth: the reward that moves are worth.
    """
    device = next(policy.parameters()).device
    rewards = exact_rewards(positions.legal_ids, positions.child_score_cp, worth)
    whole = next(positions.inputs(policy, device, len(positions.obs)))
    return HeldoutMoves(*whole, torch.from_numpy(rewards).to(device))


def count_update(
    session: Session, collected: Collected, rollout_s: float, update_s: float
) -> dict[str, float]:
    """Speeds and the evaluator's counters of an update, which is added to the session's progress.

    Args:
        session: after the update.
        collected: the batch that was played.
        rollout_s: wall time of sampling, scoring and moving, s.
        update_s: wall time of advantages and optimizer steps, s.
    """
    done, batch = session.progress, collected.batch
    before, counters = done.evaluations, session.usage.count(session.progress)
    plies, moves, spent = collected.plies, collected.scored_moves, rollout_s + update_s
    done.update += 1
    done.plies += plies
    done.scored_moves += moves
    done.largest_rollout = max(done.largest_rollout, moves)
    repeated: dict[str, float] = {}
    if batch.position_hash is not None:
        used = batch.valid.any(-1) if batch.form == "positions" else batch.valid
        fraction = session.seen.fraction(batch.position_hash[used])
        repeated = {"rollout/repeated_fraction": fraction}
    hits = counters.get("cache_hits", 0.0)  # only an evaluator with a cache counts them
    return repeated | {
        "time/rollout_s": rollout_s,
        "time/update_s": update_s,
        "time/plies_per_s": plies / spent,
        "time/moves_per_s": moves / spent,
        "time/evaluations_per_s": (done.evaluations - before) / rollout_s,
        "rollout/evaluations": float(done.evaluations),
        "rollout/engine_queries": float(done.engine_queries),
        "rollout/cache_hit_fraction": hits / counters["queries"],
        "rollout/engine_restarts": counters.get("engine_restarts", 0.0),
    }


def new_run_dir(config: TrainConfig) -> Path:
    """The run folder of a run that names none: runs/LABEL-DATE-TIME-seedN."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    # A label may be module:Name, or what a stranger's folder says: it becomes one name of a folder.
    label = re.sub(r"[^\w.,=+-]", ".", config.label)[:_LONGEST_LABEL]
    return Path("runs") / f"{label}-{stamp}-seed{config.seed}"
