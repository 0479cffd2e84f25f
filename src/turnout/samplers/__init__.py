"""Who takes part: samplers draw cohorts."""

from turnout.samplers.base import Sampler as Sampler
from turnout.samplers.delegate import Delegate as Delegate
from turnout.samplers.full import Full as Full
from turnout.samplers.independent import Independent as Independent
from turnout.samplers.nice import Nice as Nice
from turnout.samplers.stratified import Stratified as Stratified
