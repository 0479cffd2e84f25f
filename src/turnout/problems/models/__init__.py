"""Neural networks for `Neural`: Equinox modules, pytrees of arrays that are called with images [b, h, w, channels]."""

from turnout.problems.models.femnist import FemnistCnn as FemnistCnn
from turnout.problems.models.lenet import LeNet as LeNet
from turnout.problems.models.lenet_5 import LeNet5 as LeNet5
from turnout.problems.models.mcmahan import McMahan2nn as McMahan2nn
from turnout.problems.models.mcmahan import McMahanCnn as McMahanCnn
from turnout.problems.models.perceptron import Perceptron as Perceptron
from turnout.problems.models.residual import Residual as Residual
from turnout.problems.models.residual import residual_6, resnet_18

MODELS = {
    "femnist-cnn": FemnistCnn,
    "lenet": LeNet,
    "lenet-5": LeNet5,
    "mcmahan-2nn": McMahan2nn,
    "mcmahan-cnn": McMahanCnn,
    "perceptron": Perceptron,
    "residual-6": residual_6,
    "resnet-18": resnet_18,
}
"""The networks by name: functions (shape, classes, key, **options) of images of the shape (h, w, channels)."""
