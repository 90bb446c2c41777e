"""A network that reads the facts of moves is pretrained on those of the shards' positions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from algorithms.config.run import OptimizerConfig
from algorithms.pretraining.label_files import ShardFolder
from algorithms.pretraining.loop import pretrain
from algorithms.pretraining.supervised import Stream
from algorithms.reports.run_files import read_metrics
from algorithms.run_folder import checkpoint
from chess_env.move_facts import FACT_INDEX
from chess_env.moves import ACTION_FROM
from chess_env.observation import PLANE_INDEX
from tests.networks.facts_net import FACTS
from tests.pretraining.runs import Quiet, tiny


def test_a_network_that_reads_move_facts_is_pretrained_on_those_of_the_shards(
    tmp_path: Path, pretrained: Path
) -> None:
    pretrain(
        tiny(
            tmp_path, policy=FACTS, optimizer=OptimizerConfig(learning_rate=1e-1, minibatch_size=32)
        ),
        display=Quiet(),
    )
    rows = read_metrics(tmp_path)
    assert rows[-1]["pretrain/kl"] < rows[1]["pretrain/kl"]
    assert rows[-1]["eval/regret_cp"] < rows[0]["eval/regret_cp"]
    identity = checkpoint.load_newest(pretrained / "checkpoints").state["labels"]
    folder = ShardFolder(pretrained / "labels", identity)
    settings = tiny(pretrained), folder, folder.sizes(), torch.device("cpu")
    plain, batch = (Stream(*settings, move_facts=facts).minibatch(0) for facts in (False, True))
    assert plain.move_facts is None and batch.move_facts is not None
    ids = batch.legal_ids.numpy()
    assert torch.equal(plain.obs, batch.obs) and batch.move_facts.shape[:2] == ids.shape
    knights = batch.move_facts[..., FACT_INDEX.moves_knight].bool().numpy()
    planes = batch.obs[:, PLANE_INDEX.mover_knight].flatten(1).numpy()
    for row in range(len(ids)):
        assert np.array_equal(
            knights[row], (ids[row] >= 0) & (planes[row][ACTION_FROM[ids[row]]] == 1)
        )
