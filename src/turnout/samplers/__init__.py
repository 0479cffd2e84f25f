"""Samplers: how the participating clients of a round are drawn. `turnout.samplers.base` describes the protocol."""

from turnout.samplers.adaptive_size import AdaptiveSize as AdaptiveSize
from turnout.samplers.available import Available as Available
from turnout.samplers.base import Sampler as Sampler
from turnout.samplers.block import Block as Block
from turnout.samplers.cube import Cube as Cube
from turnout.samplers.delegate import Delegate as Delegate
from turnout.samplers.desraj import DesRaj as DesRaj
from turnout.samplers.full import Full as Full
from turnout.samplers.gradient_strata import GradientStratified as GradientStratified
from turnout.samplers.independent import Independent as Independent
from turnout.samplers.loss_biased import Afl as Afl
from turnout.samplers.loss_biased import PowerOfChoice as PowerOfChoice
from turnout.samplers.nice import Nice as Nice
from turnout.samplers.nonuniform import Importance as Importance
from turnout.samplers.nonuniform import NonUniform as NonUniform
from turnout.samplers.pivotal import Pivotal as Pivotal
from turnout.samplers.replacement import WithReplacement as WithReplacement
from turnout.samplers.shuffled import ShuffledNice as ShuffledNice
from turnout.samplers.shuffled import ShuffledStratified as ShuffledStratified
from turnout.samplers.stratified import Stratified as Stratified
from turnout.samplers.subsets import Subsets as Subsets
from turnout.samplers.systematic import Systematic as Systematic
from turnout.samplers.weighted import Weighted as Weighted
