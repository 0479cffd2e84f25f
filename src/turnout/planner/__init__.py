"""The planner: which algorithm, sampler and numbers reach a target most cheaply, at given prices."""
