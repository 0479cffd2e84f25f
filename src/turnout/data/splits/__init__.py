"""How the rows of a data set become clients."""

from turnout.data.splits.blocks import ContiguousSplit as ContiguousSplit
from turnout.data.splits.blocks import IidSplit as IidSplit
from turnout.data.splits.blocks import SortedSplit as SortedSplit
from turnout.data.splits.classes import DirichletSplit as DirichletSplit
from turnout.data.splits.classes import TwoClassSplit as TwoClassSplit
from turnout.data.splits.kmeans import KMeansSplit as KMeansSplit
from turnout.data.splits.natural import NaturalSplit as NaturalSplit
from turnout.data.splits.natural import ThinnedSplit as ThinnedSplit
from turnout.data.splits.partitioner import FlwrSplit as FlwrSplit
from turnout.data.splits.sizes import LogNormalSplit as LogNormalSplit
from turnout.data.splits.sizes import PowerSplit as PowerSplit
from turnout.data.splits.split import Split as Split
