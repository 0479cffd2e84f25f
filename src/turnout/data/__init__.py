"""Data sets, readers of data files, and splits of rows into clients."""

from turnout.data.catalogue import CATALOGUE as CATALOGUE
from turnout.data.catalogue import fetch as fetch
from turnout.data.catalogue import load as load
from turnout.data.catalogue import present as present
from turnout.data.dataset import Dataset as Dataset
from turnout.data.hdf5 import Hdf5 as Hdf5
from turnout.data.hugging_face import HuggingFace as HuggingFace
from turnout.data.leaf import Leaf as Leaf
from turnout.data.libsvm import read_libsvm as read_libsvm
from turnout.data.parquet import Parquet as Parquet
from turnout.data.quadratics import quadratics as quadratics
from turnout.data.source import Source as Source
from turnout.data.splits import ContiguousSplit as ContiguousSplit
from turnout.data.splits import DirichletSplit as DirichletSplit
from turnout.data.splits import FlwrSplit as FlwrSplit
from turnout.data.splits import IidSplit as IidSplit
from turnout.data.splits import KMeansSplit as KMeansSplit
from turnout.data.splits import LogNormalSplit as LogNormalSplit
from turnout.data.splits import NaturalSplit as NaturalSplit
from turnout.data.splits import PowerSplit as PowerSplit
from turnout.data.splits import SortedSplit as SortedSplit
from turnout.data.splits import Split as Split
from turnout.data.splits import ThinnedSplit as ThinnedSplit
from turnout.data.splits import TwoClassSplit as TwoClassSplit
from turnout.data.synthetic import synthetic as synthetic
from turnout.data.tff import Tff as Tff
