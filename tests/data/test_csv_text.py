"""CSV files: what they hold follows from all rows, and what is wrong is told with its line and column."""

import csv

import numpy as np
import pytest
from hypothesis import strategies as st

from tests.helpers.borders import border
from turnout.core.errors import UserError
from turnout.data import Csv, NaturalSplit, load, write_clients

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30).map(str), st.floats(allow_nan=False, allow_infinity=False).map(repr), st.just(" 2.5 ")
)
TRICKY = ["007", "7", "NA", "null", "true", "2020-01-01", "1.0", "s-2"]
NAMES = st.one_of(st.integers(-9, 2**65).map(str), st.sampled_from(TRICKY))
WHOLE = st.integers(-(2**63), 2**63 - 1).map(str)


@border(rows=st.lists(st.tuples(NUMBERS, NUMBERS, NAMES, st.one_of(WHOLE, NUMBERS)), min_size=1, max_size=8))
def test_what_is_written_is_what_is_read(folder, rows):
    """Features and labels are the nearest numbers, clients the same text, and two texts are two clients."""
    path = folder / "rows.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("a", "b", "site", "label"), *rows])
    labels = [row[3] for row in rows]
    beyond = [text for text in labels if text.lstrip("-").isdigit() and not -(2**63) <= int(text) < 2**63]
    if beyond:
        with pytest.raises(UserError, match=f"'label' holds '{beyond[0]}', which is beyond 64 bits"):
            Csv(str(path), client="site").load()
        return
    data = Csv(str(path), client="site").load()
    assert data.features.tolist() == [[float(a), float(b)] for a, b, _, _ in rows]
    assert [str(each) for each in data.ids.tolist()] == [row[2] for row in rows]
    whole = all(label.strip().lstrip("-").isdigit() for label in labels)
    assert data.labels.tolist() == [int(label) if whole else float(label) for label in labels]
    assert data.columns == ("a", "b")


@pytest.mark.tiers(quick=[], slow=["2"])
@pytest.mark.parametrize("rows", [2**16, 2])
def test_a_client_file_has_the_same_clients_and_rows(tmp_path, monkeypatch, rows):
    """Whether all rows are read at once or two by two: labels that are whole at first, clients that are numbers at first."""
    from turnout.data import client_writer

    monkeypatch.setattr(client_writer, "ROWS", rows)
    path = tmp_path / "rows.csv"
    lines = ["10,0,1", "9,0.5,1", "10,1e3,2", "9,4,2.5"]
    for sites in (("10", "9", "10", "9"), ("10", "9", "10", "09"), ("NA", "null", "NA", "null")):
        texts = [",".join([site, *line.split(",")[1:]]) for site, line in zip(sites, lines, strict=True)]
        path.write_text("\n".join(["site,x,label", *texts]) + "\n")
        data = Csv(str(path), client="site").load()
        write_clients(tmp_path / "c.arrow", path, client="site")
        stored, split = load(tmp_path / "c.arrow"), NaturalSplit().split(data)
        assert stored.columns == data.columns == ("x",)
        np.testing.assert_array_equal(np.asarray(stored.features), data.features[split.indices])
        np.testing.assert_array_equal(np.asarray(stored.labels), data.labels[split.indices])
        np.testing.assert_array_equal(NaturalSplit().split(stored).sizes, split.sizes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1,0,a\n2,x,a\n", "line 3: column 'y' holds 'x', which is no finite number"),
        ('"1",0,"a\nb"\n2,,a\n', "line 4: column 'y' is empty"),
        ("1,0,a\n2,1,\n", "line 3: column 'site' is empty"),
        ("1,0,a\n\n2,1,b\n", "line 3: column 'site' is empty"),
        ("1,0,a\n2,inf,b\n", "line 3: column 'y' holds 'inf', which is no finite number"),
        ("1,0,a\n2,nan,b\n", "line 3: column 'y' holds 'nan', which stands for a missing value"),
        ("1,0,a\n2\n", "line 3: column 'site' is empty"),
        ("1,0,a\n2,1,b,7\n", "not a .*CSV file"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_column(tmp_path, text, sentence):
    path = tmp_path / "rows.csv"
    path.write_text(f"x,y,site\n{text}")
    for read in (
        lambda: Csv(str(path), label="y", client="site").load(),
        lambda: write_clients(tmp_path / "c.arrow", path, client="site", label="y"),
    ):
        with pytest.raises(UserError, match=sentence):
            read()
    assert not (tmp_path / "c.arrow").exists()


def test_words_for_numbers_and_one_column_of_texts(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,y,label\ntrue,1,0\nFalse,2,1\n")
    assert load(path).features.tolist() == [[1.0, 1.0], [0.0, 2.0]]
    path.write_text("text,label\ngood news,1\nbad news,0\n2020,1\n")
    assert load(path).features.shape == (3, 4096)
    path.write_text("dose,label\n1,1\n2,0\n3 mg,1\n")
    with pytest.raises(UserError, match="line 4: column 'dose' holds '3 mg'"):
        load(path)
