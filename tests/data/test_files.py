"""EMNIST, the part of CIFAR-10 and AG News: what their files hold, and data of other kinds in configurations."""

import gzip
import json
import lzma
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.naive_bayes import MultinomialNB

from turnout.core.errors import UserError
from turnout.data import IidSplit, LogNormalSplit, Parquet, load
from turnout.data.ag_news import ag_news, read_ag_news
from turnout.data.cifar import CIFAR, read_cifar
from turnout.data.columns import WORDS
from turnout.data.emnist import emnist_files, read_emnist
from turnout.experiment.build import build
from turnout.experiment.config import read

IMAGES = np.arange(4 * 3 * 2, dtype=np.uint8).reshape(4, 3, 2) * 10
LABELS = np.array([26, 1, 9, 1], np.uint8)


def idx(values: np.ndarray) -> bytes:
    return gzip.compress(bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes())


@pytest.mark.parametrize("name", ["emnist-letters", "emnist-letters.t"])
def test_the_images_of_emnist_stand_upright(tmp_path, name):
    """The files hold each image transposed."""
    for file, values in zip(emnist_files(name), (IMAGES.transpose(0, 2, 1), LABELS), strict=True):
        (tmp_path / file).write_bytes(idx(np.ascontiguousarray(values)))
    data = read_emnist(name, tmp_path)
    assert np.array_equal(data.features, IMAGES) and data.features.dtype == np.uint8
    assert data.labels.tolist() == LABELS.tolist() and data.ids is None
    with pytest.raises(UserError, match="4 rows and 6 features, but emnist-letters.* has .* and 784"):
        load(name, tmp_path)


def test_absent_emnist_tells_which_files_and_whence(tmp_path):
    with pytest.raises(UserError, match="put emnist-digits-test-images.* and emnist-digits-test-labels.* from https"):
        load("emnist-digits.t", tmp_path)


def test_a_part_of_cifar_has_its_images_and_labels(tmp_path):
    images = np.arange(2 * 3 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3, 3)
    path = tmp_path / CIFAR
    np.savez(path, x_train=images, y_train=np.array([4, 9], np.uint8), x_test=images, y_test=np.array([0.5, 1]))
    data = read_cifar("cifar10_subset", path)
    assert np.array_equal(data.features, images) and data.labels.tolist() == [4, 9]
    with pytest.raises(UserError, match="y holds 0.5, but a label is a whole number"):
        read_cifar("cifar10_subset.t", path)
    with pytest.raises(UserError, match="x_heldout"):
        read_cifar("cifar10_subset.held", path)
    path.write_text("no zip file")
    with pytest.raises(UserError, match="cannot be read"):
        read_cifar("cifar10_subset", path)


OFFICIAL = '"3","Fears, for pension","Unions ""say"""\n"1","Peace","A\\treaty"\n'
HEADED = "label,text,source\n3,Fears for pension,A\n1,Peace,B\n"


def test_ag_news_with_and_without_a_header(tmp_path):
    path = tmp_path / "official.csv.xz"
    path.write_bytes(lzma.compress(OFFICIAL.encode()))
    texts, labels = read_ag_news(path)
    assert texts == ['Fears, for pension Unions "say"', "Peace A\\treaty"] and labels.tolist() == [2, 0]
    plain = tmp_path / "headed.csv"
    plain.write_text(HEADED)
    texts, labels = read_ag_news(plain)
    assert texts == ["Fears for pension", "Peace"] and labels.tolist() == [2, 0]
    data = ag_news("ag_news", plain)
    assert data.features.shape == (2, WORDS) and data.features[[0]].nnz == 3 and data.labels.tolist() == [2, 0]


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "no rows"),
        (b"label,other\n1,x\n", "no rows with text or title or description"),
        (b"5,a,b\n", "row 1: not a label 1, ..., 4"),
        (b"1,a,b\n1,a\n", "row 2: not a label"),
        (b"\xff\xfe", "not csv text"),
    ],
)
def test_what_is_not_ag_news_is_a_user_error(tmp_path, content, message):
    (tmp_path / "wrong.csv").write_bytes(content)
    with pytest.raises(UserError, match=message):
        read_ag_news(tmp_path / "wrong.csv")


@pytest.mark.longer
def test_the_real_news_are_told_apart_by_their_words(real_data):
    """Naive Bayes on hashed words, from a part of the train set, is right on most of the test set."""
    if not (real_data / "ag_news_test.csv.xz").exists():
        pytest.skip("AG News is not in the folder of the real data sets")
    train, test = load("ag_news_subset", real_data), load("ag_news.t", real_data)
    sizes = LogNormalSplit(1000, 3.0).split(train).sizes
    assert sizes.size == 1000 and sizes.sum() == train.rows and sizes[:100].sum() > 0.8 * train.rows
    assert MultinomialNB(fit_prior=False).fit(train.features, train.labels).score(test.features, test.labels) > 0.75


CONFIG = """
[problem]
kind = "multinomial"
mu = 0.1
{data}

[split]
kind = "natural"

[sampler]
kind = "nice"
size = 2

[algorithm]
kind = "fedavg"
lr = 0.1
"""


def configured(folder, data: str):
    (folder / "run.toml").write_text(CONFIG.format(data=data))
    return read(folder / "run.toml")


@pytest.fixture
def table(tmp_path):
    generator = np.random.default_rng(1)
    columns = {"a": generator.normal(size=9), "b": generator.normal(size=9), "label": [0, 1, 2] * 3, "user": list("xyyxzzxyz")}
    pl.DataFrame(columns).write_parquet(tmp_path / "mine.parquet")
    return tmp_path


INLINE = 'data = {kind = "parquet", path = "mine.parquet", client = "user"}'
TABLE = '[problem.data]\nkind = "parquet"\npath = "mine.parquet"\nclient = "user"'


@pytest.mark.parametrize("data", [INLINE, TABLE])
def test_a_configuration_names_data_by_a_table(table, data):
    experiment = configured(table, data)
    assert experiment.problem.data == Parquet("mine.parquet", client="user")
    built = build(experiment, table)
    assert built.split.sizes.tolist() == [3, 3, 3] and built.problem.rows[0].shape == (9, 2) and built.test is None
    (table / "again.toml").write_text(experiment.to_toml())
    again = read(table / "again.toml")
    assert again == replace(experiment, name=again.name) and build(again, table).digest(again) == built.digest(experiment)


def test_so_may_what_is_tested_with(table):
    experiment = configured(table, f"{INLINE}\n{INLINE.replace('data', 'test')}")
    built = build(experiment, table)
    assert built.test.rows[0].shape == (9, 2) and experiment.problem.test == experiment.problem.data


@pytest.mark.parametrize(
    "data, message",
    [
        ("data = 3", "line 5: problem.data: must be a string"),
        ('data = {path = "x"}', r"line 5: problem.data: table \[data\] needs a kind"),
        ('data = {kind = "parket", path = "x"}', "line 5: problem.data.kind: unknown data kind 'parket': did you mean 'parquet'"),
        ('data = {kind = "parquet"}', "problem.data.*path is missing"),
        ('data = {kind = "parquet", path = "x", user = "y"}', "unknown key 'user'"),
        ('data = {kind = "leaf", path = 3}', "problem.data.path: must be a string"),
        ('data = "iris"\ntest = {kind = "tiff"}', "unknown test kind 'tiff': did you mean 'tff'"),
    ],
)
def test_mistakes_in_the_table_name_their_line(tmp_path, data, message):
    with pytest.raises(UserError, match=message):
        configured(tmp_path, data)


def test_more_clients_than_rows_of_a_source(table):
    data = load(Parquet("mine.parquet", ["a", "b"]), table)
    with pytest.raises(UserError, match="10 clients cannot share the 9 rows of mine.parquet"):
        IidSplit(10).split(data)


def test_images_in_a_configuration_become_rows_of_a_problem_that_wants_them(tmp_path):
    pixels = (np.arange(784) % 256 / 255).tolist()
    content = {"users": ["u", "v"], "user_data": {user: {"x": [pixels] * 2, "y": [0, 1]} for user in "uv"}}
    (tmp_path / "all.json").write_text(json.dumps(content))
    built = build(configured(tmp_path, f'data = {{kind = "leaf", path = "{tmp_path}"}}'), None)
    assert built.split.sizes.tolist() == [2, 2] and np.asarray(built.problem.rows[0]).shape == (4, 784)
    np.testing.assert_allclose(np.asarray(built.problem.rows[0])[0], pixels, rtol=1e-15)
