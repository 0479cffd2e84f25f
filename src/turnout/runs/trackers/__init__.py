"""Callbacks that write a run to experiment trackers: `MlFlow`, `TensorBoard` and `WeightsAndBiases`."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
