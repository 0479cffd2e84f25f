"""Cost estimates: what a run will send, how often and to how many, before it is played."""
