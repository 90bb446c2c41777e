"""A policy as an ONNX file, checked against the policy that it was made from.

    pip install onnx onnxruntime onnxscript
    python examples/export_onnx.py example                  # a shipped policy -> policy.onnx
    python examples/export_onnx.py runs/mine --out mine.onnx
    python examples/export_onnx.py example --smoke          # four positions are compared in place of all

The file takes one position: `obs` uint8 [1, C, 8, 8], `legal_ids` int64 [1, 218] padded with -1, and `move_facts` uint8
[1, 218, F] where the network reads them. It gives `logits` float32 [1, 218]; those on padding mean nothing.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # runs from a clone, uninstalled

import argparse

import numpy as np
import onnxruntime
import torch

from algorithms.evaluation.load_policy import load_policy
from algorithms.playing.position import probe_set

MOST_MOVES = 218

parser = argparse.ArgumentParser(description="a policy as an ONNX file")
parser.add_argument("policy", help="a run folder, a checkpoint, or a shipped policy")
parser.add_argument("--out", type=Path, default=Path("policy.onnx"))
parser.add_argument("--smoke", action="store_true", help="compare four positions")
options = parser.parse_args()

policy, positions = load_policy(options.policy), probe_set()
names = ["obs", "legal_ids", *(["move_facts"] if policy.reads_move_facts else [])]


def inputs_of(row: int) -> dict[str, np.ndarray]:
    """One position, its legal moves padded to the most that a position has."""
    legal = np.full((1, MOST_MOVES), -1, np.int64)
    width = positions.legal_ids.shape[1]
    legal[:, :width] = positions.legal_ids[row]
    facts = np.zeros((1, MOST_MOVES, positions.move_facts.shape[2]), np.uint8)
    facts[:, :width] = positions.move_facts[row]
    arrays = {"obs": positions.obs[row : row + 1], "legal_ids": legal, "move_facts": facts}
    return {name: arrays[name] for name in names}


torch.onnx.export(
    policy,
    tuple(map(torch.from_numpy, inputs_of(0).values())),
    options.out,
    input_names=names,
    output_names=["logits"],
    dynamo=True,
    external_data=False,  # one file
    verbose=False,
)
session = onnxruntime.InferenceSession(options.out)
rows = 4 if options.smoke else len(positions)
worst = 0.0
for row in range(rows):
    given = inputs_of(row)
    with torch.inference_mode():
        wanted = policy(*map(torch.from_numpy, given.values())).numpy()
    (found,) = session.run(None, given)
    legal = given["legal_ids"] >= 0
    worst = max(worst, float(np.abs(found - wanted)[legal].max()))
assert worst < 1e-4, f"the file's logits differ by {worst}"
print(f"{options.out}: {rows} positions, logits differ by at most {worst:.1e}")
