"""Adaptive sampling from very many clients, at a cost per round that hardly depends on their number (needs numba)."""

from turnout.samplers.large_scale.rules import BySize as BySize
from turnout.samplers.large_scale.rules import KVib as KVib
from turnout.samplers.large_scale.rules import LastNorm as LastNorm
from turnout.samplers.large_scale.rules import Uniform as Uniform
from turnout.samplers.large_scale.rules import Vrb as Vrb
from turnout.samplers.large_scale.sampler import LargeScaleSampler as LargeScaleSampler
