from .base import Oracle as Oracle
from .flower_client import FlowerOracle as FlowerOracle
from .numpy_functions import NumpyOracle as NumpyOracle
