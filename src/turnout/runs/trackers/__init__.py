"""Callbacks that write a run to experiment trackers: `MlFlow`, `TensorBoard` and `WeightsAndBiases`."""

from turnout.runs.trackers.mlflow import MlFlow as MlFlow
from turnout.runs.trackers.tensorboard import TensorBoard as TensorBoard
from turnout.runs.trackers.wandb import WeightsAndBiases as WeightsAndBiases
