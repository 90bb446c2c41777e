"""A page of run folders: one self-contained, offline HTML file. No torch, no chess, no script."""

from algorithms.reports.page.boards import MoveChance, PolicyPicture, Probe
from algorithms.reports.page.build import PageNotes, build_page
from algorithms.reports.page.claims import Claims, read_claims
from algorithms.reports.page.columns import Column, group_runs

__all__ = [
    "Claims",
    "Column",
    "MoveChance",
    "PageNotes",
    "PolicyPicture",
    "Probe",
    "build_page",
    "group_runs",
    "read_claims",
]
