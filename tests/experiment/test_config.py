"""Configurations: what is written reads back, and every mistake is one sentence with its place."""

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

import turnout as t
from turnout.experiment.config import Reader, read
from turnout.experiment.toml_file import line_of

GOOD = """\
[problem]
kind = "logistic"
data = "breast_cancer"
normalize = "columns"

[split]
kind = "kmeans"
clusters = 4
clients_per_cluster = 3

[sampler]
kind = "stratified"

[algorithm]
kind = "sppm"
gamma = 10
inner = 3
solver = "bfgs"

[run]
rounds = 4

[target]
metric = "distance"
below = 0.05

[[price]]
kind = "exchanges"

[[price]]
kind = "hierarchical"
c1 = 0.1
c2 = 1.0
"""


def write(folder, text):
    path = folder / "made.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("gamma = 10", "gamma = 0"), "line 16: algorithm.gamma: must be greater than 0, but it is 0"),
        (("gamma = 10", "gama = 10"), "line 16: algorithm.gama: unknown key 'gama': did you mean 'gamma'"),
        (("gamma = 10", 'gamma = "x"'), "line 16: algorithm.gamma: must be a number greater than 0, but it is 'x'"),
        (("gamma = 10", "gamma = nan"), "line 16: algorithm.gamma"),
        (("gamma = 10\n", ""), "algorithm.gamma: gamma is missing"),
        (('kind = "sppm"', 'kind = "spm"'), "line 15: algorithm.kind: unknown algorithm kind 'spm': did you mean 'sppm'"),
        (('kind = "sppm"\n', ""), r"line 14: algorithm: table \[algorithm\] needs a kind"),
        (("inner = 3", "inner = 2.5"), "line 17: algorithm.inner"),
        (("inner = 3", "inner = 0"), "line 17: algorithm.inner: must be at least 1"),
        (('"bfgs"', '"bgfs"'), "unknown solver kind 'bgfs': did you mean 'bfgs'"),
        (("[run]", "[runs]"), "line 20: runs: unknown table 'runs': did you mean 'run'"),
        (("rounds = 4", "rounds = -4"), "line 21: run.rounds"),
        (("rounds = 4", "rounds = 4\nseed = -1"), "line 22: run.seed"),
        (("rounds = 4", 'rounds = 4\nprecision = "half"'), "line 22: run.precision"),
        (("c1 = 0.1", "c1 = -1.0"), "line 32: price.c1"),
        (("[[price]]", "[price]"), "line"),
        (('metric = "distance"', 'metric = "distanse"'), "line 24: target.metric"),
        (("[sampler]", "[sampler"), "not valid TOML: .*line 11"),
        (('[sampler]\nkind = "stratified"\n', ""), r"table \[sampler\] is missing"),
        (("clusters = 4", "clusters = 0"), "line 8: split.clusters"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(tmp_path, edit, words):
    refused(write(tmp_path, GOOD.replace(*edit)), words)


def refused(path, words):
    with pytest.raises(t.UserError, match=words) as error:
        read(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


NESTED = """\
[sampler]
kind = "available"
probability = 0.5

[sampler.sampler]
kind = "independent"
size = 3

[sampler.sampler.probability]
kind = "k-vib"
mixing = 0.1
"""


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("mixing = 0.1", "mixing = 1.5"), "line 21: sampler.sampler.probability.mixing: must be at most 1"),
        (
            ("mixing = 0.1", "mixin = 0.1"),
            "line 21: sampler.sampler.probability.mixin: unknown key 'mixin': did you mean 'mixing'",
        ),
        (
            ('"k-vib"', '"k-vibe"'),
            "line 20: sampler.sampler.probability.kind: unknown probability kind 'k-vibe': did you mean 'k-vib'",
        ),
        (('"independent"', '"independant"'), "line 16: sampler.sampler.kind: unknown sampler kind 'independant'"),
        (('kind = "k-vib"\n', ""), r"line 19: sampler.sampler.probability: table \[probability\] needs a kind"),
        (('[sampler.sampler]\nkind = "independent"\nsize = 3\n', ""), r"sampler.sampler: table \[sampler\] needs a kind"),
    ],
)
def test_a_mistake_in_a_nested_table_is_one_sentence_with_its_line(tmp_path, edit, words):
    text = GOOD.replace('[sampler]\nkind = "stratified"\n', NESTED)
    read(write(tmp_path, text))
    refused(write(tmp_path, text.replace(*edit)), words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('probability = "k-vibe"', "line 14: sampler.probability.kind: unknown probability kind 'k-vibe'"),
        ('probability = {kind = "vrb", mixing = 2}', "line 14: sampler.probability.mixing: must be at most"),
        ('probability = {kind = "vrb", size = 2}', "line 14: sampler.probability.size: unknown key 'size'"),
        ("probability = {mixing = 0.5}", "line 14: sampler.probability: table .probability. needs a kind"),
    ],
)
def test_a_mistake_in_an_inline_table_has_that_line(tmp_path, line, words):
    sampler = f'[sampler]\nkind = "independent"\nsize = 3\n{line}\n'
    refused(write(tmp_path, GOOD.replace('[sampler]\nkind = "stratified"\n', sampler)), words)


def test_nested_records_are_read_whichever_way_they_are_written():
    sampler = {"kind": "independent", "size": 3.0}
    tables = {
        "problem": {"kind": "logistic", "data": "a6a"},
        "split": {"kind": "natural"},
        "algorithm": {"kind": "mbgd", "lr": 1.0},
    }
    for given_, expected in (
        ("k-vib", t.KVib()),
        ({"kind": "k-vib", "mixing": 0.1}, t.KVib(mixing=0.1)),
        ({"kind": "a-osmd", "bound": 2}, t.AOsmd(bound=2.0)),
        ([0.5, 0.5], [0.5, 0.5]),
    ):
        algorithm = parse({**tables, "sampler": {**sampler, "probability": given_}}).algorithm
        assert algorithm.sampler == t.Independent(size=3.0, probability=expected)
    inner = {**sampler, "probability": "last-norm"}
    algorithm = parse({**tables, "sampler": {"kind": "available", "probability": 0.5, "sampler": inner}}).algorithm
    assert algorithm.sampler == t.Available(t.Independent(size=3.0, probability=t.LastNorm()), probability=0.5)


def test_the_former_name_of_a_price_is_still_read(tmp_path):
    former = write(tmp_path, GOOD.replace('kind = "exchanges"', 'kind = "rounds"'))
    assert read(former).prices[0] == t.Exchanges()


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(t.UserError, match="cannot be read"):
        read(tmp_path / "none.toml")


def test_the_written_configuration_is_complete_and_reads_back(tmp_path):
    first = read(write(tmp_path, GOOD))
    text = first.to_toml()
    for default in ('weights = "uniform"', "every = 1", "seed = 0", 'precision = "double"', "memory = "):
        assert default in text
    again = read(write(tmp_path, text))
    assert again.to_toml() == text
    assert (again.algorithm, again.prices, again.target, again.run) == (
        first.algorithm,
        first.prices,
        first.target,
        first.run,
    )


NUMBER = st.floats(1e-6, 1e6)
RULES = st.sampled_from(["uniform", "size", "k-vib", "vrb", "mabs", "avare", "osmd", "a-osmd", "last-norm"])
RULED = st.one_of(
    RULES,
    RULES.map(lambda kind: {"kind": kind}),
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["k-vib", "vrb", "mabs"])}, optional={"mixing": st.floats(0, 1), "rounds": st.integers(1, 9)}
    ),
)
COINS = st.fixed_dictionaries({"kind": st.just("independent"), "size": st.floats(1, 50)}, optional={"probability": RULED})
SAMPLERS = st.one_of(
    st.fixed_dictionaries({"kind": st.just("full")}, optional={"size": st.integers(1, 50)}),
    st.fixed_dictionaries({"kind": st.just("nice"), "size": st.integers(1, 50)}),
    st.fixed_dictionaries({"kind": st.just("independent"), "probability": st.floats(0.01, 1) | st.lists(st.floats(0.01, 1), min_size=1, max_size=4)}),
    COINS,
    st.fixed_dictionaries({"kind": st.just("available"), "probability": st.floats(0.01, 1), "sampler": COINS}, optional={"memory": st.floats(0, 1)}),
    st.fixed_dictionaries({"kind": st.just("stratified")}, optional={"strata": st.lists(st.integers(0, 3), min_size=1, max_size=5)}),
    st.fixed_dictionaries({"kind": st.just("delegate")}, optional={"client": st.integers(0, 9)}),
)  # fmt: skip
SOLVERS = st.sampled_from(["gd", "agd", "bfgs"]) | st.fixed_dictionaries(
    {"kind": st.sampled_from(["gd", "agd", "bfgs"])}, optional={"smoothness": NUMBER, "convexity": NUMBER}
)
ALGORITHMS = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.sampled_from(["fedavg", "mblocalgd"]), "lr": NUMBER}, optional={"steps": st.integers(1, 9)}
    ),
    st.fixed_dictionaries({"kind": st.just("mbgd"), "lr": NUMBER | st.integers(1, 5)}),
    st.fixed_dictionaries({"kind": st.just("sppm"), "gamma": NUMBER, "solver": SOLVERS}, optional={"inner": st.integers(1, 9)}),
)
SPLITS = st.one_of(
    st.fixed_dictionaries({"kind": st.sampled_from(["sorted", "contiguous", "iid"]), "clients": st.integers(1, 99)}),
    st.fixed_dictionaries({"kind": st.just("dirichlet"), "clients": st.integers(1, 9), "concentration": st.floats(0.01, 100)}),
    st.fixed_dictionaries({"kind": st.just("power"), "clients": st.integers(1, 9), "exponent": st.floats(0, 3)}),
    st.just({"kind": "natural"}),
)
PRICES = st.one_of(
    st.just({"kind": "exchanges"}),
    st.just({"kind": "bytes"}),
    st.fixed_dictionaries({"kind": st.just("hierarchical")}, optional={"c1": NUMBER, "c2": NUMBER}),
    st.fixed_dictionaries({"kind": st.just("seconds")}, optional={"latency": NUMBER, "bandwidth": NUMBER}),
    st.just({"kind": "selection", "arbitrary": 5.0, "random": 2}),
)
CONFIGS = st.fixed_dictionaries(
    {
        "problem": st.fixed_dictionaries(
            {"kind": st.sampled_from(["logistic", "ridge", "network"]), "data": st.sampled_from(["a6a", "x.svm"])},
            optional={"mu": st.floats(0, 10), "normalize": st.sampled_from(["none", "rows", "columns"])},
        ),
        "split": SPLITS,
        "sampler": SAMPLERS,
        "algorithm": ALGORITHMS,
    },
    optional={
        "name": st.text("abcdef-_ 0123", min_size=1, max_size=8).filter(str.strip),
        "run": st.fixed_dictionaries({}, optional={"rounds": st.integers(0, 10**6), "seed": st.integers(0, 99), "every": st.integers(1, 9)}),
        "target": st.fixed_dictionaries({"metric": st.sampled_from(["gap", "distance", "accuracy"]), "below": NUMBER}),
        "price": st.lists(PRICES, min_size=1, max_size=3),
        "faults": st.fixed_dictionaries({"loss": st.floats(0, 0.9)}, optional={"missing": st.sampled_from(["skip", "repeat"])}),
    },
)  # fmt: skip


def parse(tables, text=None):
    return Reader("made.toml", tomli_w.dumps(tables) if text is None else text, tables).experiment("made")


@pytest.mark.longer
@given(CONFIGS)
def test_any_configuration_survives_being_written(tables):
    import tomllib

    text = parse(tables).to_toml()
    assert parse(tomllib.loads(text)).to_toml() == text


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.longer
@given(CONFIGS, st.data())
def test_junk_anywhere_is_a_user_error_or_nothing(tables, data):
    table = data.draw(st.sampled_from(sorted(tables)))
    if isinstance(tables[table], dict) and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(tables[table]) or ["kind"]) | st.text(max_size=6))
        tables = {**tables, table: {**tables[table], key: data.draw(JUNK)}}
    else:
        tables = {**tables, table: data.draw(JUNK)}
    try:
        parse(tables, text="")
    except t.UserError as error:
        assert "\n" not in str(error)


@given(st.text(max_size=80))
def test_any_text_is_a_configuration_or_a_user_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "junk.toml"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(t.UserError):
        read(path)


def test_lines_are_found_in_lists_of_tables_and_dotted_keys():
    text = "a.b = 1\n[[price]]\nkind = 'x'\n[[price]]\nkind = 'y'\n[algorithm.solver]\nkind = 'z'\n"
    assert line_of(text, ("price", 1, "kind")) == 5
    assert line_of(text, ("algorithm", "solver", "kind")) == 7
    assert line_of(text, ("a", "b")) == 1
    assert line_of(text, ("price", 0, "none")) == 2
