"""How much of their bounds methods need on ten problems: `python -m tests.helpers.tightness`."""

import tests.conftest  # noqa: F401 (64 bits, and kept programs)
from tests.theory.test_ten_problems import THEOREMS, largest_share

if __name__ == "__main__":
    for name in THEOREMS:
        print(f"{name:20} {max(largest_share(name, number) for number in range(10)):.3f}", flush=True)
