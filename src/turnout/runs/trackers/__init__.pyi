from .mlflow import MlFlow as MlFlow
from .tensorboard import TensorBoard as TensorBoard
from .wandb import WeightsAndBiases as WeightsAndBiases
