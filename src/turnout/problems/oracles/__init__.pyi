from .base import Oracle as Oracle
from .numpy_functions import NumpyOracle as NumpyOracle
