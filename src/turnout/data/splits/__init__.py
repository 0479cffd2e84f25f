"""Splits: how the rows of a data set are divided into clients."""

from turnout.data.splits.by_label import DirichletSplit as DirichletSplit
from turnout.data.splits.by_label import TwoClassSplit as TwoClassSplit
from turnout.data.splits.equal_blocks import ContiguousSplit as ContiguousSplit
from turnout.data.splits.equal_blocks import IidSplit as IidSplit
from turnout.data.splits.equal_blocks import SortedSplit as SortedSplit
from turnout.data.splits.flwr_partitioner import FlwrSplit as FlwrSplit
from turnout.data.splits.kmeans import KMeansSplit as KMeansSplit
from turnout.data.splits.natural import NaturalSplit as NaturalSplit
from turnout.data.splits.natural import ThinnedSplit as ThinnedSplit
from turnout.data.splits.sizes import LogNormalSplit as LogNormalSplit
from turnout.data.splits.sizes import PowerSplit as PowerSplit
from turnout.data.splits.split import Split as Split
