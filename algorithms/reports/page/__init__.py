"""A page of run folders: one self-contained, offline HTML file. No torch, no chess."""

from algorithms.reports.page.claims import Claims, comparison_file, family_claims, read_claims
from algorithms.reports.page.columns import Column, RunGroup, group_columns, group_runs
from algorithms.reports.page.diagrams import MoveChance, PolicyPicture, Probe
from algorithms.reports.page.page import PageNotes, build_page

__all__ = [
    "Claims",
    "Column",
    "MoveChance",
    "PageNotes",
    "PolicyPicture",
    "Probe",
    "RunGroup",
    "build_page",
    "comparison_file",
    "family_claims",
    "group_columns",
    "group_runs",
    "read_claims",
]
