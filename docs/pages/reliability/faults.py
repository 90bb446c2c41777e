"""The matrix of faults: what is injected, how, and what tests or measures it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A record of `benchmarks/results` that a row counts from.

    Attributes:
        name: of the record, and of the module in `benchmarks/reliability` that writes it.
        times: columns whose sum over the rows is how often the fault was injected.
        wrong: columns whose sums should be 0.
    """

    name: str
    times: Sequence[str]
    wrong: Sequence[str]


@dataclass(frozen=True)
class Fault:
    """A row of the matrix.

    Attributes:
        key: its name in the matrix.
        what: the fault.
        how: how it is injected, and what must come of it.
        tests: files in `tests`, or FILE::NAME for one test function of a file.
        measure: where it is also counted.
        not_run: why it is not run here; empty where it is.
    """

    key: str
    what: str
    how: str = ""
    tests: Sequence[str] = ()
    measure: Measure | None = None
    not_run: str = ""


_POOL, _FAULTS = "evaluators/test_stockfish_pool.py", "evaluators/test_engine_faults.py"
_CACHE, _CHECKPOINT = "evaluators/test_cache.py", "run_folder/test_checkpoint.py"
_SNAPSHOTS = "run_folder/test_snapshots.py"
_REAL, _ODD = "evaluators/test_engine_promises.py", "run_folder/test_odd_places.py"

FAULTS = (
    Fault(
        "L1",
        "steps of the environment against python-chess and a single board",
        "random games; equal on every position",
        (
            "rules/test_rules.py::test_5000_random_positions_agree_with_python_chess",
            "rules/test_rules.py::test_100000_random_positions_agree_with_python_chess",
            "env/test_vector_env.py::test_every_board_equals_a_single_environment_bit_by_bit",
        ),
    ),
    Fault(
        "L2",
        "queries while engines are killed",
        "a SIGKILL every two seconds; no answer is lost or changed",
        (
            f"{_REAL}::test_killing_an_engine_every_two_seconds_costs_no_answer_and_little_time",
            f"{_POOL}::test_engines_killed_while_they_search_change_no_score_and_leave_nothing",
        ),
    ),
    Fault(
        "L3",
        "processes on one cache file",
        "processes that read and write it at once; no score is lost or wrong",
        (
            f"{_CACHE}::test_processes_share_one_file_without_losing_a_score",
            "evaluators/test_cache_threads.py",
        ),
        Measure("shared_cache", ("keys",), ("lost", "wrong", "locked")),
    ),
    Fault(
        "L4",
        "a long run with faults",
        "engines killed and stopped, a tracker that hangs; as undisturbed",
        (),
        Measure("soak", ("updates",), ("processes_left",)),
    ),
    Fault(
        "F-1",
        "SIGKILL of an engine",
        "while it searches, between batches, in its handshake; replaced",
        (
            f"{_POOL}::test_engines_killed_while_they_search_change_no_score_and_leave_nothing",
            f"{_POOL}::test_engines_that_ended_between_two_batches_are_replaced",
            f"{_FAULTS}::test_an_engine_that_is_killed_during_its_first_handshake_is_replaced",
        ),
    ),
    Fault(
        "F-2",
        "SIGSTOP of an engine, or of everything",
        "replaced at its deadline; a suspended machine costs nothing",
        (
            f"{_POOL}::test_a_stopped_engine_is_replaced_at_the_deadline",
            f"{_POOL}::test_a_paused_program_does_not_take_its_engines_for_hung",
            f"{_REAL}::test_a_hung_engine_costs_at_most_its_deadline_and_two_seconds",
            f"{_REAL}::test_a_machine_that_is_suspended_three_times_during_a_query_costs_nothing",
        ),
    ),
    Fault(
        "F-3",
        "no engine, a wrong one, or one that talks nonsense",
        "fake engines and wrong paths; explained or replaced",
        (
            f"{_FAULTS}::test_an_engine_that_talks_nonsense_is_replaced_and_all_it_said_is_asked_again",
            f"{_FAULTS}::test_a_wrong_binary_is_explained_in_one_paragraph",
            f"{_FAULTS}::test_a_file_the_system_cannot_run_is_explained",
            f"{_FAULTS}::test_engines_that_end_at_every_start_are_not_started_for_ever",
            f"{_FAULTS}::test_engines_that_never_answer_anything_are_not_started_for_ever",
            f"{_FAULTS}::test_a_binary_that_changes_during_a_run_is_noticed",
            "evaluators/test_protocol.py::test_a_missing_engine_is_an_error_only_when_it_was_asked_for",
        ),
    ),
    Fault(
        "F-4",
        "a position that ends engines",
        "given up after three tries; the rest of the batch is kept",
        (
            f"{_FAULTS}::test_a_position_that_ends_engines_is_given_up_after_three_tries",
            f"{_POOL}::test_a_position_that_crashes_the_engine_is_quarantined_and_the_rest_is_kept",
            f"{_FAULTS}::test_the_cache_keeps_the_answers_of_a_batch_with_a_poisoned_position",
        ),
    ),
    Fault(
        "F-5",
        "SIGTERM, SIGINT, SIGHUP",
        "sent to a run; a checkpoint, no child left, the signal's exit code",
        (
            "commands/test_signals.py",
            "commands/test_eval_ending.py",
            "training/test_trainer.py::test_a_signal_lets_the_update_finish_and_the_run_continues_exactly",
        ),
    ),
    Fault(
        "F-6",
        "SIGKILL of the trainer",
        "at every change of a file and at random instants; goes on as undisturbed",
        (
            "run_folder/test_kills.py",
            "run_folder/test_first_second.py",
            f"{_CHECKPOINT}::test_a_kill_at_any_instant_leaves_an_intact_newest_checkpoint",
            f"{_SNAPSHOTS}::test_a_kill_at_any_instant_leaves_every_snapshot_intact",
            f"{_SNAPSHOTS}::test_a_run_killed_around_a_snapshot_goes_on_and_has_the_same_in_the_end",
            "training/test_trainer.py::test_a_killed_run_continues_as_if_nothing_had_happened",
        ),
        Measure("kills", ("killed",), ("not as undisturbed",)),
    ),
    Fault(
        "F-7",
        "a full disk",
        "a small file system, or writes that fail; named, and what was there is kept",
        (
            "run_folder/test_full_disk.py",
            f"{_CHECKPOINT}::test_a_full_disk_names_path_and_size_and_keeps_the_previous_one",
            f"{_SNAPSHOTS}::test_a_full_disk_names_the_snapshot_and_the_run_goes_on",
            f"{_CACHE}::test_a_full_disk_leaves_the_cache_in_memory_with_one_warning",
        ),
    ),
    Fault(
        "F-8",
        "a damaged checkpoint, record or configuration",
        "flipped bits, cut and missing files; found, and the one before is used",
        (
            f"{_CHECKPOINT}::test_every_flipped_bit_is_detected_and_the_file_named",
            f"{_CHECKPOINT}::test_cut_and_missing_files_are_detected_and_named",
            f"{_CHECKPOINT}::test_a_damaged_newest_checkpoint_falls_back_with_a_warning",
            "run_folder/test_checksums.py",
        ),
        Measure(
            "flips", ("flips",), ("unseen_by_report", "unseen_by_diagnose", "unseen_by_resume")
        ),
    ),
    Fault(
        "F-9",
        "NaN in loss, gradient or reward, no legal move in a mask",
        "made-up batches; the step is left out and its batch kept, a reward is an error",
        (
            "updates/test_update_needs.py::test_rewards_that_are_not_finite_are_counted_in_the_error",
            "rollouts/test_dynamic_sampling.py::test_a_reward_that_is_not_finite_is_an_error_and_no_dead_group",
            "updates/test_bad_batches.py",
            "training/test_controlled_runs.py::test_a_step_that_is_not_finite_is_left_out_and_its_batch_is_in_the_run_folder",
            "core/test_distribution.py::test_a_row_without_legal_slots_has_entropy_zero_and_no_gradient",
            "core/test_distribution.py::test_a_legal_logit_that_is_not_finite_shows_in_every_number_of_its_row",
        ),
    ),
    Fault(
        "F-10",
        "a bad FEN, PGN or action",
        "refused by value; the game before goes on",
        (
            "rules/test_fen.py",
            "env/test_bad_input.py",
            "trust/test_limits.py::test_a_game_with_more_plies_than_the_rules_allow_is_read_no_further",
        ),
    ),
    Fault(
        "F-11",
        "a damaged cache file",
        "other bytes, before and during a run; moved aside, scores stay right",
        (
            f"{_CACHE}::test_a_damaged_file_is_moved_aside_and_rebuilt_and_scores_stay_right",
            f"{_CACHE}::test_damage_during_a_run_is_repaired",
            f"{_CACHE}::test_a_flipped_bit_in_a_stored_score_is_noticed",
        ),
    ),
    Fault(
        "F-12",
        "two trainers on one folder",
        "the second is refused with the process of the first",
        (
            "run_folder/test_run_log.py::test_a_second_writer_is_refused_with_the_process_of_the_first",
            "run_folder/test_run_log.py::test_a_folder_with_a_run_is_refused_unless_resumed",
        ),
    ),
    Fault(
        "F-13",
        "a tracker that is missing or fails",
        "no row is lost; one that hangs is part of L4",
        (
            "run_folder/test_run_log.py::test_a_tracker_that_fails_does_not_cost_a_row",
            "run_folder/test_run_log.py::test_a_missing_tracker_says_how_to_install_it",
        ),
    ),
    Fault("F-14", "a rank that dies", "SIGKILL; torchrun goes on", ("processes/test_launch.py",)),
    Fault("F-15", "a cluster that takes a machine away", not_run="no cluster is supported yet"),
    Fault(
        "F-16",
        "a clock that jumps, a slow disk, a folder that is read-only, odd paths",
        "clocks set back and forth, .1 s for each change of a file, mounts that are read-only, other scripts in names",
        (_ODD,),
    ),
    Fault(
        "S-1",
        "a malicious checkpoint",
        "pickles in place of every file, states that were made up; nothing is unpickled, nothing taken",
        ("trust/test_pickles.py", "trust/test_states.py"),
    ),
    Fault(
        "S-2",
        "files that unpack or nest without end",
        "refused at their limits",
        ("trust/test_limits.py",),
    ),
    Fault(
        "S-3",
        "names and links that lead out of a folder",
        "nothing outside is touched",
        ("trust/test_files_outside.py",),
    ),
    Fault(
        "S-4",
        "HTML in what a report shows",
        "opened in a browser; nothing runs and nothing is fetched",
        ("trust/test_page_in_a_browser.py",),
    ),
    Fault("S-5", "attacks on the web board", not_run="the web board is not built yet"),
    Fault(
        "S-6",
        "code and programs that settings name",
        "refused without `--trust`",
        ("trust/test_names_in_a_folder.py",),
    ),
    Fault(
        "S-7",
        "any bytes for the UCI engine and the readers of files",
        "one answer to each `go`; refused or read, never a crash",
        ("playing/test_engine.py", "playing/test_protocol.py"),
        Measure("fuzz", ("inputs",), ("failures",)),
    ),
    Fault(
        "T-1",
        "intervals and tests on data whose truth is known",
        "simulated; they cover and reject as often as they say",
        (
            "reports/test_statistics.py::test_about_95_of_100_intervals_cover_the_truth",
            "reports/test_statistics.py::test_errors_stay_rare_in_a_family_without_any_difference",
            "reports/test_elo.py::test_intervals_cover_a_few_hundred_truths",
            "reports/test_elo.py::test_intervals_cover_95_percent_of_2000_truths",
            "reports/test_peaks.py::test_the_best_of_21_flat_evaluations_is_rarely_called_real",
        ),
    ),
    Fault(
        "T-2",
        "the doctor on runs whose cause is known",
        "[how often it is right](doctor.md#how-often-it-is-right)",
        (
            "collapse/test_doctor.py",
            "collapse/test_doctor_rules.py",
            "collapse/test_doctor_damage.py",
        ),
    ),
)
