"""What turnout draws with the seed of the vectors: kept numbers, coins, batches and when replies come."""

PLACES = [
    {"0": [1, 2], "1": [2, 0], "2": [2, 1], "3": [1, 2]},
    {"0": [1, 2], "1": [0, 2], "2": [1, 2], "3": [1, 2]},
    {"0": [1, 0], "1": [2, 0], "2": [0, 1], "3": [0, 1]},
]
"""Places of the two numbers that rand-k keeps, by round and client, in the order in which they are drawn."""

PAIRS = [
    {"0": [[1, 2], [1, 2]], "1": [[2, 0], [1, 2]], "2": [[2, 1], [0, 2]], "3": [[1, 2], [1, 0]]},
    {"0": [[1, 2], [1, 2]], "1": [[0, 2], [2, 1]], "2": [[1, 2], [0, 1]], "3": [[1, 2], [0, 1]]},
    {"0": [[1, 0], [0, 1]], "1": [[2, 0], [1, 0]], "2": [[0, 1], [1, 0]], "3": [[0, 1], [1, 2]]},
]
"""The same for two vectors of each client."""

SHARES = [
    {"0": [0, 2], "2": [1, 2], "3": [0, 1]},
    {"0": [0, 1], "1": [0, 2], "2": [1, 2]},
    {"0": [0, 1], "1": [1, 2], "3": [0, 2]},
]
"""Places of the numbers that clients of TAMUNA send; each number comes from two."""

COINS = [
    {"0": [0], "1": [1, 1], "2": [0], "3": [1, 0]},
    {"0": [1, 0], "1": [0], "2": [0], "3": [1, 1, 1, 1]},
    {"0": [1, 0], "1": [0], "2": [0], "3": [1, 1]},
]
"""Coins of GradSkip's clients in their local steps, up to the first that shows 0."""

COMMON = [[0, 2], [0, 2], [2, 1]]
"""Places that all clients of a round keep."""

OWN = [
    {"0": [[1, 0], [2, 0]], "1": [[1, 0], [0, 2]], "2": [[2, 0], [2, 0]], "3": [[2, 0], [0, 1]]},
    {
        "0": [[2, 1], [2, 1], [2, 0], [0, 2]],
        "1": [[0, 2], [2, 1], [0, 1], [1, 0]],
        "2": [[2, 0], [1, 2], [1, 0], [2, 0]],
        "3": [[0, 1], [0, 1], [0, 1], [0, 1]],
    },
    {"0": [[2, 0], [1, 0]], "1": [[2, 0], [2, 1]], "2": [[1, 2], [1, 0]], "3": [[0, 1], [2, 0]]},
]
"""Places that a client keeps in each of its local steps."""

ROWS = [
    {"0": [[1, 1], [1, 1]], "1": [[0, 1], [1, 0]], "2": [[0, 0], [0, 0]], "3": [[0, 3], [2, 1]]},
    {
        "0": [[0, 1], [1, 1], [0, 0], [1, 0]],
        "1": [[1, 2], [0, 0], [2, 0], [0, 0]],
        "2": [[0, 0], [0, 0], [0, 0], [0, 0]],
        "3": [[0, 0], [2, 3], [1, 1], [0, 3]],
    },
    {"0": [[0, 0], [0, 1]], "1": [[0, 0], [0, 1]], "2": [[0, 0], [0, 0]], "3": [[3, 2], [0, 3]]},
]
"""Rows of two-row batches, drawn with replacement, in each local step."""

MOVES = [
    {"0": [False, False], "1": [True, True], "2": [False, False], "3": [True, False]},
    {
        "0": [True, False, False, False],
        "1": [True, False, False, True],
        "2": [True, False, True, False],
        "3": [True, False, True, False],
    },
    {"0": [False, False], "1": [False, True], "2": [False, True], "3": [False, True]},
]
"""Whether an anchor moves after each local step."""

SECONDS = [1.5, 4.6, 5.0, 3.4]
ARRIVALS = [
    *([0, 0], [0, 2], [3, 0], [0, 3], [1, 0], [2, 1]),
    *([0, 5], [3, 4], [0, 8], [0, 10], [1, 6], [2, 7]),
]
"""Client and round of sending of each reply, where client i works for SECONDS[i]."""
