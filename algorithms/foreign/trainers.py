"""The trainers whose logs are read, by the names that `--from` takes."""

from algorithms.foreign.openrlhf import OPENRLHF
from algorithms.foreign.prime_rl import PRIME_RL
from algorithms.foreign.sb3 import SB3
from algorithms.foreign.trainer import Trainer
from algorithms.foreign.trl import TRL
from algorithms.foreign.verl import VERL

TRAINERS: dict[str, Trainer] = {each.name: each for each in (TRL, VERL, OPENRLHF, PRIME_RL, SB3)}
