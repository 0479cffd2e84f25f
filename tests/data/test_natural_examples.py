"""The examples with natural clients: what their `prepare.py` makes of a table."""

from pathlib import Path
from runpy import run_path

import numpy as np
import polars as pl

from turnout.data import load

EXAMPLES = Path(__file__).parents[2] / "examples"


def program(example: str) -> dict:
    return run_path(str(EXAMPLES / example / "prepare.py"))


def test_patients_are_cleaned():
    rows = {
        "id": [1, 2, 3, 4],
        "age": [63, 63, 41, 50],
        "sex": ["Male", "Male", "Female", "Male"],
        "dataset": ["Cleveland", "Cleveland", "Hungary", "Switzerland"],
        "trestbps": [145, 145, 0, 120],
        "chol": [233, 233, 204, 0],
        "slope": ["flat", "flat", None, None],
        "ca": [0.0, 0.0, None, None],
        "thal": ["normal", "normal", None, None],
        "num": [0, 0, 1, 4],
    }
    table = program("hospitals")["cleaned"](pl.DataFrame(rows))
    assert table.to_dict(as_series=False) == {
        "age": [63, 41, 50],
        "sex": ["Male", "Female", "Male"],
        "hospital": ["Cleveland", "Hungary", "Switzerland"],
        "trestbps": [145, None, 120],
        "chol": [233, 204, None],
        "disease": [0, 1, 1],
    }
    data = load(table, label="disease", client="hospital", missing="mean")
    assert np.asarray(data.features)[2].tolist() == [
        50,
        0,
        1,
        120,
        218.5,
    ]  # age, two columns of sex, blood pressure, the mean of 233 and 204


def test_patients_who_differ_in_a_column_that_is_dropped_are_two():
    rows = {"id": [1, 2], "dataset": ["Cleveland"] * 2, "trestbps": [120] * 2, "chol": [200] * 2, "slope": ["flat", None]}
    rest = {"ca": [0.0, 0.0], "thal": ["normal"] * 2, "num": [0, 0]}
    assert len(program("hospitals")["cleaned"](pl.DataFrame(rows | rest))) == 2


def test_pupils_are_above_the_median_of_all_schools():
    rows = {
        "rownames": [1, 2, 3],
        "School": [1224, 1224, 9586],
        "Minority": ["No", "Yes", "No"],
        "Sex": ["Female", "Male", "Female"],
        "SES": [-1.5, 0.5, 1.0],
        "MathAch": [5.0, 20.0, 12.0],
        "MEANSES": [-0.4, -0.4, 0.6],
    }
    table = program("schools")["pupils"](pl.DataFrame(rows))
    assert table["above"].to_list() == [False, True, False]
    data = load(table, label="above", client="school")
    assert np.asarray(data.features).tolist() == [[0, 1, -1.5, -0.4], [1, 0, 0.5, -0.4], [0, 1, 1.0, 0.6]]


def test_students_with_few_ratings_are_left_out():
    rows = {"s": [7, 7, 7, 8, 8], "studage": [2] * 5, "lectage": [1] * 5, "service": [0, 1, 0, 0, 0]}
    rest = {"dept": [2, 3, 2, 2, 2], "y": [5, 4, 3, 1, 2]}
    table = program("schools")["ratings"](pl.DataFrame(rows | rest), least=3)
    assert table.to_dict(as_series=False) == {
        "student": ["7"] * 3,
        "department": ["d2", "d3", "d2"],
        "semester": ["s2"] * 3,
        "since": ["s1"] * 3,
        "service": [False, True, False],
        "good": [True, True, False],
    }
