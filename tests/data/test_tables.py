"""Tables as people have them: words, categories, gaps, dates and other ways to write numbers become features, or are refused."""

import json
from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import strategies as st
from safetensors import safe_open

import turnout as t
from tests.helpers.borders import border
from turnout.data import Csv, Dataset, IidSplit, NaturalSplit, load, write_clients
from turnout.data.preprocessing import preprocessing_of

PEOPLE = """age,city,joined,bought,user
30,north,2024-01-01,yes,ann
,south,2024-01-03,no,bob
50,north,2024-01-02,yes,ann
40,NA,2024-01-05,no,bob
"""
COLUMNS = {"label": "bought", "client": "user"}


def table(folder, text: str, name: str = "rows.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def read(folder, text: str, **options) -> tuple[list, list, tuple]:
    """Return the features, the labels and the names of the features of a CSV file."""
    data = load(table(folder, text), **options)
    return data.features.tolist(), data.labels.tolist(), data.columns


def test_words_categories_dates_and_gaps(tmp_path):
    path = table(tmp_path, PEOPLE)
    data = load(path, missing="mean", indicator=True, dates="days", **COLUMNS)
    day = (date(2024, 1, 1) - date(1970, 1, 1)).days
    assert data.columns == ("age", "age=missing", "city=north", "city=south", "city=missing", "joined")
    assert data.features.tolist() == [
        [30, 0, 1, 0, 0, day], [40, 1, 0, 1, 0, day + 2], [50, 0, 1, 0, 0, day + 1], [40, 0, 1, 0, 1, day + 4],
    ]  # fmt: skip
    assert data.labels.tolist() == ["yes", "no", "yes", "no"] and data.classes.tolist() == ["no", "yes"]
    assert data.ids.tolist() == ["ann", "bob", "ann", "bob"]
    dropped = load(path, missing="drop", features=["age", "city"], **COLUMNS)
    assert dropped.features.tolist() == [[30, 1], [50, 1]] and dropped.ids.tolist() == ["ann", "ann"]


FRAMES = {
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "dict": lambda columns: columns,
    "pandas": lambda columns: pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns),
    "pandas' categories": lambda columns: (
        pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns).astype({"city": "category"})
    ),
    "pandas' own types": lambda columns: (
        pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns).convert_dtypes()
    ),
    "Hugging Face": lambda columns: pytest.importorskip(
        "datasets", reason="datasets is not installed: pip install 'turnout[hugging-face]'"
    ).Dataset.from_dict(columns),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_gives_the_same_rows_as_its_file(tmp_path, kind):
    columns = {
        "age": [30.0, None, 50.0], "city": ["b", "a", None], "seen": [datetime(1970, 1, 2, 12)] * 3, "label": ["x", "y", "x"],
    }  # fmt: skip
    data = load(FRAMES[kind](columns), missing="most frequent", dates="days")
    expected = load(
        table(tmp_path, "age,city,seen,label\n30,b,1970-01-02 12:00:00,x\n,a,1970-01-02 12:00:00,y\n50,,1970-01-02T12:00:00,x\n"),
        missing="most frequent",
        dates="days",
    )
    assert data.columns == expected.columns == ("age", "city=a", "city=b", "seen")
    assert data.features.tolist() == expected.features.tolist() == [[30, 0, 1, 1.5], [30, 1, 0, 1.5], [50, 1, 0, 1.5]]
    assert data.labels.tolist() == ["x", "y", "x"] and data.preprocessing == expected.preprocessing


@pytest.mark.parametrize(
    ("text", "options", "features", "labels"),
    [
        ("a;label\n1,5;0\n2,25;1\n", {"separator": ";", "decimal": ","}, [[1.5], [2.25]], [0, 1]),
        ('a,label\n"1,234.5",0\n"2,000,000",1\n12,1\n', {"thousands": ","}, [[1234.5], [2e6], [12]], [0, 1, 1]),
        ("a;label\n1.234,5;0\n12;1\n", {"separator": ";", "decimal": ",", "thousands": "."}, [[1234.5], [12]], [0, 1]),
        ("a;label\n1 234,5;0\n12;1\n", {"separator": ";", "decimal": ",", "thousands": " "}, [[1234.5], [12]], [0, 1]),
        ("a\tlabel\n1e3\t0\n-2.5E-1\t1\n", {"separator": "\t"}, [[1000], [-0.25]], [0, 1]),
        ("\ufeffa,label\n1,0\n2,1\n", {}, [[1], [2]], [0, 1]),
        ('"a","label"\n"1","p"\n"2","q"\n', {}, [[1], [2]], ["p", "q"]),
        ('a,label\n1,"p,q"\n2,"p ""r"""\n', {}, [[1], [2]], ["p,q", 'p "r"']),
        ("a,label\n1,1.5\n2,-2\n", {}, [[1], [2]], [1.5, -2]),
        ("a,label\n1,true\n2,False\n", {}, [[1], [2]], [True, False]),
        ("a,label\r\n1,-1\r\n2,+1\r\n", {}, [[1], [2]], [-1, 1]),
        ("a,label\nTRUE,1\nfalse,2\n", {}, [[1], [0]], [1, 2]),
        ("zip,a,label\n7,1,0\n8,2,1\n", {"categories": ["zip"]}, [[1, 0, 1], [0, 1, 2]], [0, 1]),
        ("zip,a,label\n07,1,0\n7,2,1\n", {"categories": ["zip"]}, [[1, 0, 1], [0, 1, 2]], [0, 1]),
        (
            "a,b,label\n1,x,0\n2,y,1\n3,x,1\n4,z,0\n",
            {"max_categories": 2},
            [[1, 1, 0], [2, 0, 1], [3, 1, 0], [4, 0, 1]],
            [0, 1, 1, 0],
        ),
        ("a,b,label\n1,é,0\n2,日本,1\n", {}, [[1, 1, 0], [2, 0, 1]], [0, 1]),
        ("t,label\n1970-01-01 00:01,0\n1970-01-01 01:00,1\n", {"dates": "seconds"}, [[60], [3600]], [0, 1]),
        ("a,label\n1,0\nNA,1\n3,1\n", {"missing": "drop"}, [[1], [3]], [0, 1]),
        ("a,label\n1,x\n2,\n3,y\n", {"missing": "drop"}, [[1], [3]], ["x", "y"]),
        ("a,label\n1,0\nnull,1\n1,1\n4,0\n", {"missing": "most frequent"}, [[1], [1], [1], [4]], [0, 1, 1, 0]),
        ("a,label\n2,0\n,1\n1,1\n", {"missing": "most frequent"}, [[2], [1], [1]], [0, 1, 1]),
    ],
)
@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
def test_what_a_table_holds(tmp_path, text, options, features, labels):
    assert read(tmp_path, text, **options)[:2] == (features, labels)


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("a,a,label\n1,2,0\n", {}, "line 1: two columns are called 'a': rename one"),
        ("a,label\n1,0\n,1\n", {}, "line 3: column 'a' is empty: say missing = 'mean', 'most frequent' or 'drop', or fill it in"),
        ("a,b,label\n1,x,0\n2,NA,1\n", {}, "line 3: column 'b' holds 'NA', which stands for a missing value: say missing"),
        ("a,b,label\n1,5,0\n2,5 mg,1\n", {}, "line 3: column 'b' holds '5 mg', which is no finite number"),
        ("a,b,label\n1,2024-01-01,0\n2,2024-01-02,1\n", {}, "column 'b' holds dates: say dates = 'days' or 'seconds'"),
        ("a,label\n1,0\n2,\n", {"missing": "mean"}, "line 3: column 'label' is empty: say missing = 'drop'"),
        ("a,label\n1,1\n2,x\n", {}, "line 3: column 'label' holds 'x', which is no finite number"),
        ("a,b,label\n,1,0\n,2,1\n", {"missing": "mean"}, "column 'a' holds no value at all"),
        ('a,label\n"1,5",0\n2,1\n', {"thousands": ","}, "line 2: column 'a' holds '1,5', which is no finite number"),
        ("a;label\n1.5;0\n2,5;1\n", {"separator": ";", "decimal": ","}, "line 2: column 'a' holds '1.5', which is no finite"),
        ("a,b,label\n1,other,0\n2,other,1\n3,x,1\n4,y,1\n5,y,1\n", {"max_categories": 2}, "two features would be called 'b=oth"),
        ("a,label\n1,0\n", {"thousands": "."}, "thousands '.' is not one character other than decimal"),
        ("a,label\n1,0\n", {"encoding": "klingon"}, "encoding 'klingon' is unknown"),
        ("a,b,label\n1,x,0\n2,other,1\n", {"categories": "b"}, "categories must be a list"),
        ("a;label\n1;0\n", {}, "there is no column 'label'"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::turnout.core.errors.Caution")
def test_what_a_table_may_not_hold(tmp_path, text, options, sentence):
    with pytest.raises(t.UserError, match=sentence) as error:
        read(tmp_path, text, **options)
    assert "\n" not in str(error.value)


def test_other_encodings(tmp_path):
    path = tmp_path / "rows.csv"
    for encoding, told in (("cp1252", "cp1252"), ("utf-16", None), ("utf-16-le", "utf-16-le")):
        path.write_bytes("a,label\n1,café\n2,thé\n".encode(encoding))
        assert load(path, encoding=told).labels.tolist() == ["café", "thé"]
    path.write_bytes("a,label\n1,café\n2,thé\n".encode("cp1252"))
    with pytest.raises(t.UserError, match="give its encoding, such as 'cp1252'"):
        load(path)
    with pytest.raises(t.UserError, match="not text in ascii"):
        load(path, encoding="ascii")


def test_many_categories_are_told(tmp_path):
    rows = "".join(f"{k},c{k % 7},{k % 2}\n" for k in range(20))
    with pytest.warns(t.Caution, match="column 'b' has 7 categories: the 2 most frequent have a column each"):
        data = load(table(tmp_path, f"a,b,label\n{rows}"), max_categories=3)
    assert data.columns == ("a", "b=c0", "b=c1", "b=other")


def test_a_test_set_follows_the_training_rows(tmp_path):
    """Its gaps get the training mean, its categories the training columns, its scale is theirs, and columns go by name."""
    train = load(table(tmp_path, "a,b,label\n1,x,p\n3,y,q\n,y,q\n"), missing="mean").normalized("columns")
    path = table(tmp_path, "b,a,label\ny,,q\nx,3,q\n", "test.csv")
    test, centre, spread = load(path, like=train), np.array([2, 1 / 3, 2 / 3]), np.array([2 / 3, 2 / 9, 2 / 9]) ** 0.5
    np.testing.assert_allclose(test.features, (np.array([[2, 0, 1], [3, 1, 0]]) - centre) / spread)
    assert test.classes.tolist() == ["p", "q"] and test.columns == train.columns
    with pytest.warns(t.Caution, match=r"test.csv has 'z' in column 'b'.*none of their categories"):
        unseen = load(table(tmp_path, "a,b,label\n2,z,q\n", "test.csv"), like=train)
    np.testing.assert_allclose(unseen.features, (np.array([[2, 0, 0]]) - centre) / spread)
    plain = Dataset("arrays", np.array([[3.0]]), np.array(["q"]), columns=("a",))
    for wrong, sentence in (
        (plain, "arrays lacks the column 'b'"),
        (load(table(tmp_path, "a,b,c,label\n1,x,2,p\n")), "has the column 'c'"),
        (load(table(tmp_path, "a,b,label\n1,x,r\n")), "has the label 'r'"),
        (Dataset("scaled", test.features, test.labels).normalized("columns"), "scaled already"),
    ):
        with pytest.raises(t.UserError, match=sentence):
            wrong.like(train)


def test_numbers_that_are_categories_are_so_in_a_test_set(tmp_path):
    """As they are written: 07 and 7 are two, though the test set's other options do not say so."""
    train = load(table(tmp_path, "zip,a,label\n07,1,0\n7,2,1\n"), categories=["zip"])
    test = table(tmp_path, "a,zip,label\n5,7,0\n6,07,1\n", "test.csv")
    assert load(test, like=train).features.tolist() == [[0, 1, 5], [1, 0, 6]] and train.columns == ("zip=07", "zip=7", "a")
    train.preprocessing.save(tmp_path / "rules.json")
    assert load(test, preprocessing=str(tmp_path / "rules.json")).features.tolist() == [[0, 1, 5], [1, 0, 6]]


def test_held_out_rows_leave_no_trace_in_the_rules(tmp_path):
    rows = load(table(tmp_path, "a,b,label\n1,x,0\n,x,1\n3,x,1\n100,z,0\n"), missing="mean")
    with pytest.warns(t.Caution, match="has 'z' in column 'b'"):
        fitted = rows.fitted(np.array([0, 1, 2]))
    assert fitted.columns == ("a", "b=x") and fitted.features.tolist() == [[1, 1], [2, 1], [3, 1], [100, 0]]
    scaled = fitted.normalized("columns", np.array([0, 1, 2]))
    assert abs(scaled.features[:3].mean(axis=0)).max() < 1e-15 and abs(scaled.features[:3, 0].std() - 1) < 1e-15


def applied(facts: dict, row: dict) -> np.ndarray:
    """Return the features of a row by the metadata of a model's file, in NumPy alone."""
    numbers = []
    for rule in facts["preprocessing"]["columns"]:
        value = row.get(rule["name"])
        held = rule["fill"] if value is None else value
        if rule["kind"] == "category":
            numbers += [float(held == category) for category in rule["categories"]]
            numbers += [float(held not in rule["categories"])] if rule["other"] else []
        else:
            numbers.append(float(held))
        numbers += [float(value is None)] if rule["indicator"] else []
    numbers = np.array(numbers)
    for scaling in facts["preprocessing"]["scalings"]:
        means, deviations = np.array(scaling["means"]), np.array(scaling["deviations"])
        numbers = np.where(deviations > 0, (numbers - means) / np.where(deviations > 0, deviations, 1), 0)
    return numbers


def test_a_saved_model_is_applied_to_a_new_row_in_numpy(tmp_path):
    path = table(tmp_path, PEOPLE)
    data = load(path, features=["age", "city"], missing="mean", indicator=True, **COLUMNS).normalized("columns")
    trace = t.run(t.FedAvg(t.Full(), lr=0.5), t.Multinomial.of(data, NaturalSplit().split(data), mu=0.1), rounds=5)
    trace.save_model(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "np") as file:
        facts = json.loads(file.metadata()["turnout"])
        weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
    assert facts["classes"] == ["no", "yes"] and facts["features"] == [*data.columns]
    new = {"age": None, "city": "south"}
    test = load({"age": [None], "city": ["south"], "bought": ["yes"]}, label="bought", like=data)
    np.testing.assert_allclose(applied(facts, new), test.features[0], rtol=1e-15)
    problem = t.Multinomial.of(test, IidSplit(1).split(test), mu=0.1)
    logits = np.asarray(problem.logits(trace.x, test.features))[0]
    np.testing.assert_allclose(applied(facts, new) @ weight + bias, logits, rtol=1e-12)


@pytest.mark.slow
def test_a_client_file_keeps_words_categories_and_rules(tmp_path):
    path, file = table(tmp_path, PEOPLE), tmp_path / "clients.arrow"
    options = {"features": ["age", "city"], "missing": "mean", **COLUMNS}
    data = load(path, **options)
    split = NaturalSplit().split(data)
    write_clients(file, path, **options)
    stored = load(file)
    assert stored.columns == data.columns and stored.classes.tolist() == ["no", "yes"]
    assert stored.preprocessing == data.preprocessing
    np.testing.assert_array_equal(np.asarray(stored.features), data.features[split.indices])
    assert np.asarray(stored.labels).tolist() == data.labels[split.indices].tolist()
    one, other = (
        t.run(t.FedAvg(t.Full(), lr=0.1), t.Logistic.of(each, NaturalSplit().split(each), mu=0.1), rounds=3)
        for each in (data, stored)
    )
    assert np.array_equal(one.x, other.x)
    test = load({"age": [None], "city": ["south"], "bought": ["no"]}, label="bought", like=stored)
    assert test.features.tolist() == [[40, 0, 1]]
    write_clients(file, data, split)
    assert (
        load(file).preprocessing == data.preprocessing
        and np.asarray(load(file).labels).tolist() == np.asarray(stored.labels).tolist()
    )
    with pytest.raises(t.UserError, match="rows cannot be dropped"):
        write_clients(file, path, **{**options, "missing": "drop"})


def test_rules_come_back_from_their_file(tmp_path):
    data = load(table(tmp_path, PEOPLE), missing="mean", indicator=True, dates="seconds", **COLUMNS).normalized("columns")
    assert preprocessing_of(data.preprocessing.json, "file") == data.preprocessing
    data.preprocessing.save(tmp_path / "rules.json")
    again = Csv(str(tmp_path / "rows.csv"), **COLUMNS, preprocessing=str(tmp_path / "rules.json")).load()
    np.testing.assert_allclose(again.features, data.features)
    for wrong in ("{}", "[]", "no JSON", '{"columns": [{"kind": "number"}], "drop": false, "scalings": []}'):
        with pytest.raises(t.UserError, match="holds no rules of preprocessing"):
            preprocessing_of(wrong, "file")


@border(
    rows=st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(-1e6, 1e6)),
            st.one_of(st.none(), st.sampled_from(["a", "b", "=", "other", "é"])),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ),
    missing=st.sampled_from(["refuse", "drop", "mean", "most frequent"]),
)
def test_gaps_and_categories_by_an_independent_rule(folder, rows, missing):
    """Each row gives its number, or the mean or the most frequent one, and 1 in the column of its category."""
    numbers, words, labels = (list(column) for column in zip(*rows, strict=True))
    source = {"x": numbers, "w": words, "label": [int(label) for label in labels]}
    known = {name: [value for value in source[name] if value is not None] for name in ("x", "w")}
    gaps = [x is None or w is None for x, w, _ in rows]
    if any(gaps) and (missing == "refuse" or not all(known.values()) or (missing == "drop" and all(gaps))):
        with pytest.raises(t.UserError, match="lacks a value|holds no value|has no row without"):
            load(source, missing=missing)
        return
    data = load(source, missing=missing)
    often = {name: min(values, key=lambda v: (-values.count(v), v)) if values else None for name, values in known.items()}
    fill = {"x": np.mean(known["x"]) if missing == "mean" else often["x"], "w": often["w"]}
    names = sorted({w for (_, w, _), gap in zip(rows, gaps, strict=True) if w is not None and not (missing == "drop" and gap)})
    expected = [
        [fill["x"] if x is None else x, *(float((fill["w"] if w is None else w) == name) for name in names)]
        for x, w, _ in rows
        if missing != "drop" or not (x is None or w is None)
    ]
    np.testing.assert_allclose(data.features, np.array(expected).reshape(-1, 1 + len(names)), rtol=1e-12)
    assert data.rows == (len(rows) if missing != "drop" else len(rows) - sum(gaps))
