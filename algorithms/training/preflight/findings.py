"""Findings of the preflight: the measurement, the cause that it shows, and the remedy."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Finding:
    """A fault that was found.

    Attributes:
        cause: its name: "temperature", "legal_mask", "dropout", "precision", "weights", ...
        severity: "fail" (the run would learn nothing of value) or "warn".
        measured: what was measured, with the numbers.
        expected: what it would be without the fault.
        because: the cause in words.
        remedy: the setting to change.
    """

    cause: str
    severity: Literal["fail", "warn"]
    measured: str
    expected: str
    because: str
    remedy: str

    def __str__(self) -> str:
        """All of it in one paragraph."""
        return (
            f"{self.cause}: {self.because}. Measured: {self.measured} (without the fault: "
            f"{self.expected}). Remedy: {self.remedy}"
        )


@dataclasses.dataclass(frozen=True)
class Report:
    """Findings and measurements of the preflight.

    Attributes:
        findings: in the order of the checks.
        metrics: for the run's record.
    """

    findings: tuple[Finding, ...]
    metrics: dict[str, float]

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Findings that stop a run."""
        return tuple(finding for finding in self.findings if finding.severity == "fail")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Findings with which a run may start."""
        return tuple(finding for finding in self.findings if finding.severity == "warn")


class PreflightError(RuntimeError):
    """A run must not start. The message names each cause with its measurement and remedy.

    Args:
        failures: at least one.
    """

    def __init__(self, failures: tuple[Finding, ...]) -> None:
        self.failures = failures
        lines = "\n".join(f"- {failure}" for failure in failures)
        super().__init__(
            f"the preflight found {len(failures)} fault{'s' if len(failures) > 1 else ''} before "
            f"the first update:\n{lines}\n--no-preflight starts the run all the same"
        )
