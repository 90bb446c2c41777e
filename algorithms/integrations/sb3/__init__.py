"""MaskablePPO of sb3-contrib on the same boards and network, recorded as this project's own runs are."""
