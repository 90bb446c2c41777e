"""The nodes of a cluster compared before anything starts: the same engine, network and version of this project."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chess_env.evaluators.protocol import Evaluator
from chess_env.evaluators.uci import EngineError

_LOOK_S = 60.0


@dataclass(frozen=True)
class NodeReport:
    """What a node would score with.

    Attributes:
        evaluator_id: names everything that a score depends on.
        pure: whether a score depends on nothing else.
        project: `project_hash()` there.
        fault: why the node cannot score; "" where it can.
    """

    evaluator_id: str
    pure: bool
    project: str
    fault: str = ""


def source_hash(*folders: Path) -> str:
    """Hash of the source in these folders, 12 hexadecimal digits: equal on two machines with the same version."""
    found = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            name = path.relative_to(folder.parent).as_posix()
            found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


def project_hash() -> str:
    """The hash of `chess_env`."""
    import chess_env

    return source_hash(Path(chess_env.__file__).parent)


def report_of(evaluator: Evaluator) -> NodeReport:
    """What this machine would score with."""
    return NodeReport(evaluator.id, getattr(evaluator, "pure", True), project_hash())


def look(name: str) -> NodeReport:
    """What this machine would score with under that name of an evaluator; a fault is reported, not raised."""
    from chess_env.evaluators import make_evaluator

    try:
        evaluator = make_evaluator(name, num_engines=1)
    except (EngineError, ValueError) as error:
        return NodeReport("", True, project_hash(), str(error))
    try:
        return report_of(evaluator)
    finally:
        evaluator.close()


def agreed_report(ray: Any, name: str, num_engines: int) -> NodeReport:
    """What all nodes with a CPU report, each of which has been asked.

    Raises:
        EngineError: a node differs from this program's own (from the first by address, where that lends no CPU),
            cannot score or does not answer; scores are not pure; or the cluster has fewer CPUs than engines
            are wanted.
    """
    nodes = lending(ray.nodes())
    cpus = sum(int(node["Resources"]["CPU"]) for node in nodes)
    if cpus < num_engines:
        listed = (
            ", ".join(f"{node_label(n)}: {int(n['Resources']['CPU'])}" for n in nodes) or "none"
        )
        raise EngineError(
            f"num_engines={num_engines} and the Ray cluster has {cpus} CPUs ({listed}): an engine takes "
            f"one; lower num_engines (--env.num-engines), or add nodes with `ray start --address=...`"
        )
    reports = _asked(ray, nodes, name)
    here = ray.get_runtime_context().get_node_id()
    own = next((node for node in nodes if node["NodeID"] == here), nodes[0])
    expected = reports[own["NodeID"]]
    for node in [own, *nodes]:
        check_same(reports[node["NodeID"]], expected, node_label(node), node_label(own))
    return expected


def node_label(node: dict[str, Any]) -> str:
    """A node's address, its name where it has one, and the beginning of its id."""
    address, name = node["NodeManagerAddress"], node.get("NodeName", "")
    named = "" if name in ("", address) else f"{name}, "
    return f"{address} ({named}id {node['NodeID'][:8]})"


def check_same(report: NodeReport, expected: NodeReport, label: str, of: str) -> None:
    """Raises EngineError, with the remedy, where a node would give other scores than is expected.

    Args:
        report: what the node says.
        expected: what it should say.
        label: names the node.
        of: names whoever set the expectation.
    """
    if report.fault:
        raise EngineError(
            f"The Ray node {label} cannot score: {report.fault} Mend that there and start the node again, or "
            "start it with --num-cpus=0: then no engine runs on it."
        )
    if report.project != expected.project:
        raise EngineError(
            f"The Ray node {label} has another version of this project (source {report.project}) than {of} "
            f"(source {expected.project}): install the same commit there and start the node again."
        )
    if report.evaluator_id != expected.evaluator_id:
        raise EngineError(
            f"The Ray node {label} has another engine: {report.evaluator_id!r}, and {of} has "
            f"{expected.evaluator_id!r}. Scores of two engines must not be mixed: install the same build there "
            "(or set STOCKFISH_PATH before `ray start`) and start the node again, or start it with --num-cpus=0."
        )
    if not report.pure:
        raise EngineError(
            f"{report.evaluator_id!r} cannot be spread over a cluster: with pure=False a score depends on what "
            "the engine was asked before, and a lost batch could not be asked again; leave pure=False out"
        )


def lending(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that are alive and lend a CPU, in the order of their addresses."""
    alive = [node for node in nodes if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    return sorted(alive, key=lambda node: (node["NodeManagerAddress"], node["NodeID"]))


def _asked(ray: Any, nodes: list[dict[str, Any]], name: str) -> dict[str, NodeReport]:
    """{node id: its report}; a node that cannot even load this project has a fault."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def ask() -> Any:  # defined here, so that Ray sends its code: the node may not have ours
        try:
            from chess_env.evaluators.cluster.nodes import look as look_there
        except ImportError as error:
            return str(error)
        report = look_there(name)
        return report.evaluator_id, report.pure, report.project, report.fault

    task = ray.remote(num_cpus=0, max_retries=0)(ask)
    asked = {
        task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(): node
        for node in nodes
    }
    ray.wait(list(asked), num_returns=len(asked), timeout=_LOOK_S)
    reports = {}
    for ref, node in asked.items():
        try:
            found = ray.get(ref, timeout=0)
        except ray.exceptions.GetTimeoutError:
            found = f"it did not say what it has within {_LOOK_S:g} s."
        except ray.exceptions.RayError as error:
            found = str(error).strip().splitlines()[-1].rstrip(".") + "."
        else:
            if isinstance(found, str):
                found = (
                    f"it has not this project, or an old version ({found}): install it there, "
                    "with the Python that `ray start` runs under."
                )
        reports[node["NodeID"]] = (
            NodeReport("", True, "", found) if isinstance(found, str) else NodeReport(*found)
        )
    return reports
