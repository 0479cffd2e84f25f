"""The fault drill: real federations whose processes are killed at random moments, and what the runs come to all the same."""
