"""A page of run folders: one self-contained, offline HTML file. No torch, no chess, no script."""

from algorithms.reports.page.boards import MoveChance, PolicyPicture, Probe
from algorithms.reports.page.build import PageNotes, build_page
from algorithms.reports.page.claims import Claims, comparison_file, family_claims, read_claims
from algorithms.reports.page.columns import Column, Group, group_columns, group_runs

__all__ = [
    "Claims",
    "Column",
    "Group",
    "MoveChance",
    "PageNotes",
    "PolicyPicture",
    "Probe",
    "build_page",
    "comparison_file",
    "family_claims",
    "group_columns",
    "group_runs",
    "read_claims",
]
