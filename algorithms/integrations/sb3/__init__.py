"""The boards as a `VecEnv` of Stable-Baselines3, and the networks as a policy of sb3-contrib's MaskablePPO."""
