"""Papers that compare methods by what their selections of clients cost, at several prices."""
