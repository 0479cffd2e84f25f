"""An index for the server: adaptive draws from very many clients, at a cost that hardly depends on how many."""

from turnout.index.index import Index as Index
from turnout.index.rules import BySize as BySize
from turnout.index.rules import KVib as KVib
from turnout.index.rules import LastNorm as LastNorm
from turnout.index.rules import Uniform as Uniform
from turnout.index.rules import Vrb as Vrb
