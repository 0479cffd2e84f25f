"""Cost estimates: a trace of one round, a simulation of its random parts, and bounds on the rest."""
