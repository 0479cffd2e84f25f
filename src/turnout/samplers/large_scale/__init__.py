"""An index for the server: adaptive draws from very many clients, at a cost that hardly depends on how many."""

from turnout.samplers.large_scale.index import Index as Index
from turnout.samplers.large_scale.rules import BySize as BySize
from turnout.samplers.large_scale.rules import KVib as KVib
from turnout.samplers.large_scale.rules import LastNorm as LastNorm
from turnout.samplers.large_scale.rules import Uniform as Uniform
from turnout.samplers.large_scale.rules import Vrb as Vrb
