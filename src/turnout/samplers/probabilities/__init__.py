"""Probability rules: how likely each client is to be drawn, fixed before a run or learned from feedback."""

from turnout.samplers.probabilities.avare import Avare as Avare
from turnout.samplers.probabilities.base import Probability as Probability
from turnout.samplers.probabilities.drift import Drift as Drift
from turnout.samplers.probabilities.last_norm import LastNorm as LastNorm
from turnout.samplers.probabilities.mabs import Mabs as Mabs
from turnout.samplers.probabilities.optimal import Optimal as Optimal
from turnout.samplers.probabilities.osmd import AOsmd as AOsmd
from turnout.samplers.probabilities.osmd import Osmd as Osmd
from turnout.samplers.probabilities.regularised_leader import KVib as KVib
from turnout.samplers.probabilities.regularised_leader import Vrb as Vrb
from turnout.samplers.probabilities.static import BySize as BySize
from turnout.samplers.probabilities.static import Uniform as Uniform
