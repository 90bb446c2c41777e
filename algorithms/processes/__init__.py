"""The processes of a run: which shards each of them carries, and what they tell each other."""

from algorithms.processes.group import Group, Processes, Shards, check_division
from algorithms.processes.launch import joined_processes

__all__ = ["Group", "Processes", "Shards", "check_division", "joined_processes"]
