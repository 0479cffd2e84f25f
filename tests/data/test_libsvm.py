"""Reading LIBSVM text: what is written comes back, and a mistake is found on its line."""

import bz2
import gzip
import lzma
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import turnout as t
from turnout.core.errors import Caution, UserError
from turnout.data import IidSplit, load, read_libsvm

COMPRESS = {"": bytes, ".xz": lzma.compress, ".bz2": bz2.compress, ".gz": gzip.compress}
FINITE = st.floats(allow_nan=False, allow_infinity=False)


def line(label, row) -> str:
    return " ".join([repr(float(label))] + [f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v])


@st.composite
def tables(draw):
    shape = draw(st.tuples(st.integers(1, 7), st.integers(1, 6)))
    features = draw(arrays(np.float64, shape, elements=st.one_of(st.just(0.0), FINITE)))
    return features, draw(arrays(np.float64, shape[0], elements=FINITE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("libsvm")


@pytest.mark.parametrize("ending", COMPRESS)
@given(tables())
@settings(max_examples=25, deadline=None)
def test_what_is_written_comes_back_equal(folder, ending, table):
    features, labels = table
    text = "".join(line(*pair) + "\n" for pair in zip(labels, features, strict=True))
    path = folder / f"made.t{ending}"
    path.write_bytes(COMPRESS[ending](text.encode()))
    data = read_libsvm(path, features.shape[1])
    assert data.name == "made.t"
    assert np.array_equal(data.features.toarray(), features)
    assert np.array_equal(data.labels, labels)


CORRUPTIONS = [
    ("spam 1:1", "label 'spam'"),
    ("nan 1:1", "label 'nan'"),
    ("inf", "label 'inf'"),
    ("1,2 1:1", "label '1,2'"),
    ("1:1 2:1", "label '1:1'"),
    ("1 2", "'2' is not index:value"),
    ("1 2:", "value in '2:'"),
    ("1 :2", "index in ':2'"),
    ("1 1:two", "value in '1:two'"),
    ("1 1:nan", "value in '1:nan'"),
    ("1 1:1 2:-inf", "value in '2:-inf'"),
    ("1 1:1e999", "value in '1:1e999'"),
    ("1 1:2:3", "value in '1:2:3'"),
    ("1 one:2", "index in 'one:2' is not a whole number"),
    ("1 1.0:2", "index in '1.0:2' is not a whole number"),
    ("1 -3:1", "less than 0"),
    ("1 2:1 1:1", "does not increase"),
    ("1 2:1 2:1", "does not increase"),
    ("1 99999999999999999999:1", "more than"),
]


@pytest.mark.parametrize("bad, message", CORRUPTIONS)
@given(tables(), st.sampled_from(list(COMPRESS)), st.data())
@settings(max_examples=8, deadline=None)
def test_a_corrupt_line_is_named_with_what_is_wrong(folder, bad, message, table, ending, data):
    lines = [line(*pair) for pair in zip(table[1], table[0], strict=True)]
    position = data.draw(st.integers(0, len(lines)))
    lines.insert(position, bad)
    path = folder / f"corrupt{ending}"
    path.write_bytes(COMPRESS[ending]("\n".join(lines).encode()))
    with pytest.raises(UserError) as caught:
        read_libsvm(path)
    assert f"{path}, line {position + 1}: " in str(caught.value) and message in str(caught.value)


def test_comments_and_blank_lines_are_skipped_but_counted(tmp_path):
    path = tmp_path / "made"
    path.write_text("# a comment\n\n1 1:2 # another\n-1 2:x\n")
    with pytest.raises(UserError, match="line 4: the value in '2:x'"):
        read_libsvm(path)
    path.write_text("# a comment\n\n1 1:2 # another\n")
    assert read_libsvm(path).features.toarray().tolist() == [[2]]


@pytest.mark.longer
@given(tables(), st.data())
@settings(max_examples=150, deadline=None)
def test_a_random_byte_anywhere_gives_a_data_set_or_a_user_error(folder, table, data):
    content = bytearray("".join(line(*pair) + "\n" for pair in zip(table[1], table[0], strict=True)).encode())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    check_no_other_exception(folder / "byte", bytes(content))


@pytest.mark.longer
@given(st.binary(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_bytes_give_a_data_set_or_a_user_error(folder, content):
    check_no_other_exception(folder / "any", content)


@pytest.mark.parametrize("ending", [".xz", ".bz2", ".gz"])
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_damaged_compression_gives_a_data_set_or_a_user_error(folder, ending, data):
    content = bytearray(COMPRESS[ending](b"1 1:2 3:4\n-1 2:5\n" * 20))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    check_no_other_exception(folder / f"damaged{ending}", bytes(content))


def check_no_other_exception(path, content):
    path.write_bytes(content)
    try:
        assert read_libsvm(path).rows >= 1
    except UserError as error:
        assert str(path) in str(error)


@pytest.mark.parametrize("ending", [".xz", ".bz2", ".gz"])
def test_truncated_and_false_compression_are_user_errors(tmp_path, ending):
    path = tmp_path / f"made{ending}"
    whole = COMPRESS[ending](b"1 1:2 3:4\n" * 50)
    for content in (whole[: len(whole) // 2], b"1 1:2 3:4\n"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="cannot be decompressed.*again"):
            read_libsvm(path)


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nothing\n"])
def test_a_file_without_rows_is_a_user_error(tmp_path, ending, content):
    path = tmp_path / f"made{ending}"
    path.write_bytes(COMPRESS[ending](content))
    with pytest.raises(UserError, match="holds no rows"):
        read_libsvm(path)


def test_a_missing_file_and_a_folder_are_user_errors(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        read_libsvm(tmp_path / "absent")
    with pytest.raises(UserError, match="cannot be read"):
        read_libsvm(tmp_path)


def test_the_number_of_features_may_be_larger_but_not_smaller(tmp_path):
    path = tmp_path / "made"
    path.write_text("1 1:1\n-1 3:1\n")
    assert read_libsvm(path).features.shape == (2, 3)
    assert read_libsvm(path, 9).features.shape == (2, 9)
    with pytest.raises(UserError, match="line 2: the index in '3:1' is more than 2"):
        read_libsvm(path, 2)


def written(folder, name: str, text: str):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@given(tables(), st.sampled_from([True, "auto"]))
@settings(max_examples=25, deadline=None)
def test_indices_that_count_from_zero(folder, table, zero_based):
    """Told, or shown by an index of 0, they give the same rows as indices one higher."""
    features, labels = table
    features[0, 0] = 1.0
    rows = [re.sub(r"(\d+):", lambda index: f"{int(index[1]) - 1}:", line(*pair)) for pair in zip(labels, features, strict=True)]
    data = read_libsvm(written(folder, "zero.txt", "\n".join(rows)), zero_based=zero_based)
    assert (
        data.zero_based
        and np.array_equal(data.features.toarray(), features[:, : data.width])
        and not features[:, data.width :].any()
    )


def test_rows_without_index_0_may_count_from_zero_if_told(folder):
    path = written(folder, "told.txt", "+1 1:5\n-1 2:7\n")
    assert read_libsvm(path, zero_based=True).features.toarray().tolist() == [[0, 5, 0], [0, 0, 7]]
    assert read_libsvm(path).features.toarray().tolist() == [[5, 0], [0, 7]]
    with pytest.raises(UserError, match="line 2: the index in '2:7' is more than 1"):
        read_libsvm(path, 2, zero_based=True)
    with pytest.raises(UserError, match="line 1: the index in '0:5' is less than 1"):
        read_libsvm(written(folder, "zeros.txt", "+1 0:5\n"), zero_based=False)


def test_a_test_set_counts_from_zero_where_the_training_set_does(folder):
    train = read_libsvm(written(folder, "train.txt", "+1 0:1 2:1\n-1 1:1\n"))
    test = written(folder, "test.txt", "+1 1:5 2:7\n")
    assert read_libsvm(test).like(train).features.toarray().tolist() == [[0, 5, 7]]
    with pytest.warns(Caution, match="test.txt has 2 features and train.txt has 3"):
        assert read_libsvm(test, zero_based=False).like(train).features.toarray().tolist() == [[5, 7, 0]]
    with pytest.raises(UserError, match="say zero_based = true for both"):
        train.like(read_libsvm(test))
    one, other = (t.Ridge.of(data, IidSplit(1).split(data), 0.1) for data in (train, read_libsvm(test, 3)))
    with pytest.raises(UserError, match=r"from 0 and from 1: load its data with data.like\(train\)"):
        t.run(t.FedAvg(t.Full(), lr=0.1), one, rounds=1, test=other, metrics=("test_value",))


def test_a_byte_order_mark_is_no_part_of_the_first_label(folder):
    assert read_libsvm(written(folder, "mark.txt", "\ufeff+1 1:2\n-1 2:3\n")).labels.tolist() == [1, -1]
    with pytest.raises(UserError, match="line 1: the value in '1:x'"):
        read_libsvm(written(folder, "mark.txt", "\ufeff+1 1:x\n"))


def test_queries_are_clients_or_are_told(folder):
    path = written(folder, "ranks.txt", "2 qid:7 1:1\n1 qid:7 2:1\n3 qid:10 1:1\n")
    assert load(str(path), client="qid").ids.tolist() == [7, 7, 10]
    with pytest.warns(Caution, match="queries of its rows"):
        assert read_libsvm(path).ids is None
    with pytest.raises(UserError, match="2 of 3 rows have a query"):
        read_libsvm(written(folder, "some.txt", "2 qid:7 1:1\n1 qid:8 2:1\n3 1:1\n"), client="qid")


def test_a_row_of_gigabytes_is_refused_with_its_memory(folder):
    with pytest.raises(UserError, match=r"line 2: the index in '2000000000:1' is more than 268435456, and a model takes 15 GiB"):
        read_libsvm(written(folder, "wide.txt", "+1 1:1\n-1 2000000000:1\n"))
