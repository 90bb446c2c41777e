"""Entropy and KL for any algorithm: in reward, advantage and loss, and the controllers."""

from algorithms.regularization.controllers import Measurements, RegularizerConfig, Signals
from algorithms.regularization.regularizer import Regularizer

__all__ = ["Measurements", "Regularizer", "RegularizerConfig", "Signals"]
