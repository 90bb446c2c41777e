"""The one place where entropy and KL enter training: reward, advantage, loss, and controllers."""

from algorithms.regularization.controllers import Measurements, RegularizerConfig, Signals
from algorithms.regularization.regularizer import Regularizer

__all__ = ["Measurements", "Regularizer", "RegularizerConfig", "Signals"]
