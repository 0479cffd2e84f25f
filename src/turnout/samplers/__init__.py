"""Who takes part: samplers draw cohorts."""

from turnout.samplers.base import Sampler as Sampler
from turnout.samplers.block import Block as Block
from turnout.samplers.delegate import Delegate as Delegate
from turnout.samplers.full import Full as Full
from turnout.samplers.gradients import GradientStratified as GradientStratified
from turnout.samplers.independent import Independent as Independent
from turnout.samplers.nice import Nice as Nice
from turnout.samplers.nonuniform import Importance as Importance
from turnout.samplers.nonuniform import NonUniform as NonUniform
from turnout.samplers.shuffled import ShuffledNice as ShuffledNice
from turnout.samplers.shuffled import ShuffledStratified as ShuffledStratified
from turnout.samplers.stratified import Stratified as Stratified
from turnout.samplers.subsets import Subsets as Subsets
