"""Mistakes in a user's own algorithm: one sentence with file and line, the user's frames alone, and runs without compilation."""

import linecache
import traceback

import jax.numpy as jnp
import numpy as np
import pytest

import turnout as t

PROBLEM = t.Quadratic.random(clients=4, dimension=3, seed=0)


@t.record
class Mine(t.Algorithm):
    sampler: t.Sampler = t.Nice(2)

    def round(self, ask, x):
        return ask(self.sampler, self.step, x).mean()

    @t.on_client
    def step(self, client, x):
        return x - 0.1 * client.grad(x)


@t.record
class If(Mine):
    @t.on_client
    def step(self, client, x):
        return x if x[0] > 1 else x + 1  # wrong


@t.record
class Float(Mine):
    @t.on_client
    def step(self, client, x):
        return x * float(x[0])  # wrong


@t.record
class Range(Mine):
    def round(self, ask, x):
        return x + [1.0, 2.0, 3.0][jnp.argmax(x)]  # wrong


@t.record
class NumPy(Mine):
    def round(self, ask, x):
        return x + np.sin(x)  # wrong


@t.record
class Mask(Mine):
    def round(self, ask, x):
        return x[x > 0].sum() + x  # wrong


@t.record
class Shape(Mine):
    @t.on_client
    def step(self, client, x):
        return x @ jnp.ones(7)  # wrong


@t.record
class Name(Mine):
    def round(self, ask, x):
        return ask(self.sampler, self.stepp, x).mean()  # wrong


@t.record
class Gradient(Mine):
    @t.on_client
    def step(self, client, x):
        return client.grads(x)  # wrong


@t.record
class Arguments(Mine):
    def round(self, ask, x):
        return ask(self.sampler, self.step, x, x).mean()  # wrong


@t.record
class Key(Mine):
    def round(self, ask, x):
        return ask(self.sampler, self.step, x).mean()["weight"]  # wrong


IN_A_LINE = {
    If: "Python's if, and, or, not and while need a value that is known before the run: use jax.numpy.where",
    Float: r"float\(\), int\(\), a shape or a range needs a value that is known before the run: keep it as an array",
    Range: "an index or a range needs a number that is known before the run",
    NumPy: "NumPy needs values that are known before the run: use jax.numpy in its place",
    Mask: "a mask as an index gives an array whose length is not known before the run",
    Shape: r"got \(3,\) and \(7,\)",
    Name: "has no attribute 'stepp': did you mean 'step'",
    Gradient: "a client has no attribute 'grads': did you mean 'grad'",
    Arguments: "ask takes who, a local method and one message: put several things into one tuple",
    Key: "correct this line",
}


@pytest.mark.parametrize("engine", ["compiled", "nodes"])
@pytest.mark.parametrize("kind", IN_A_LINE, ids=lambda kind: kind.__name__)
def test_a_mistake_is_told_with_its_line_and_a_remedy(kind, engine):
    with pytest.raises(t.UserError, match=IN_A_LINE[kind]) as told:
        t.run(kind(), PROBLEM, rounds=2, engine=engine)
    frames = traceback.extract_tb(told.tb)
    assert "# wrong" in frames[-1].line and f"test_own_code.py, line {frames[-1].lineno}, in {frames[-1].name}: " in str(
        told.value
    )
    # Those of this file, and that of the function that it calls.
    assert [frame.filename for frame in frames if frame.filename != __file__] == [frames[1].filename]
    assert "\n" not in str(told.value) and linecache.getline(__file__, frames[-1].lineno)


@t.record
class Nothing(Mine):
    @t.on_client
    def step(self, client, x):
        client.grad(x)


@t.record
class Other(Mine):
    def step(self, client, x):
        return x


@t.record
class NoState(Mine):
    def round(self, ask, x):
        ask(self.sampler, self.step, x).mean()


@t.record
class Narrow(Mine):
    def round(self, ask, x):
        return ask(self.sampler, self.step, x).mean().astype("float32")


@t.record
class Short(Mine):
    def round(self, ask, x):
        return ask(self.sampler, self.step, x).mean()[:2]


@t.record
class Alone(Mine):
    def round(self, x):
        return x


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Nothing, "Nothing.step returns nothing: return the reply"),
        (Other, "Other.step is not a local method: mark it with @on_client"),
        (NoState, r"NoState.round gets a state of float64\[3\] and returns nothing: return the new state"),
        (Narrow, r"gets a state of float64\[3\] and returns a state of float32\[3\]"),
        (Short, r"gets a state of float64\[3\] and returns a state of float64\[2\]"),
        (Alone, r"Alone.round takes \(self, x\), but it gets ask and the state: define round\(self, ask, server\)"),
    ],
)
def test_what_a_method_returns_and_takes(kind, sentence):
    with pytest.raises(t.UserError, match=sentence):
        t.run(kind(), PROBLEM, rounds=2)


@t.record
class Whole(Mine):
    @t.on_client
    def step(self, client, x):
        return t.Done(x - 0.1 * client.grad(x))


@pytest.mark.longer
def test_a_reply_alone_is_a_reply_of_one_query():
    one, other = (t.run(kind(), PROBLEM, rounds=3) for kind in (Mine, Whole))
    assert np.array_equal(one.x, other.x) and one.ledger.totals() == other.ledger.totals()


@t.record
class Spoken(Mine):
    def round(self, ask, x):
        print("round", np.asarray(x).tolist())
        return ask(self.sampler, self.step, x).mean()

    @t.on_client
    def step(self, client, x):
        print("client", int(client.id), float(x[0]))
        if x[0] < -1e9:
            return x
        breakpoint()
        return x - 0.1 * client.grad(x)


@pytest.mark.slow
def test_debugged_runs_see_numbers_and_give_the_same(capsys, monkeypatch):
    """Print, Python's if and breakpoints work, once in each round and client; the result is that of the compiled run."""
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda *_, **__: stops.append(1))
    trace = t.run(Spoken(), PROBLEM, rounds=3, seed=1, debug=True)
    compiled = t.run(Mine(), PROBLEM, rounds=3, seed=1)
    np.testing.assert_allclose(trace.x, compiled.x, rtol=1e-12)
    assert trace.ledger.totals() == compiled.ledger.totals() and len(stops) == 6
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["round", "client", "client"] * 3
    assert lines[0] == "round [0.0, 0.0, 0.0]"
    with pytest.raises(t.UserError, match="option 'debug'"):
        t.sweep(Mine(), PROBLEM, {}, rounds=1, debug=True)


@t.record
class Later(t.Algorithm):
    """A call in a branch that is not taken, and one in a loop without a pass, in the first round."""

    sampler: t.Sampler = t.Nice(2)

    def round(self, ask, x):
        def step(x):
            return ask(self.sampler, self.step, x).mean()

        x = ask.cond(ask.round == 2, step, lambda x: x, x)
        return ask.loop(ask.round - 1, step, x)

    @t.on_client
    def step(self, client, x):
        return t.Done(x - 0.1 * client.grad(x), queries=1)


@pytest.mark.longer
def test_calls_that_the_first_round_does_not_reach_are_debugged_too():
    debugged, compiled = (t.run(Later(), PROBLEM, rounds=3, seed=1, debug=debug) for debug in (True, False))
    np.testing.assert_allclose(debugged.x, compiled.x, rtol=1e-12)
    assert debugged.ledger.totals() == compiled.ledger.totals() and compiled.ledger.totals()["exchanges"] == 4


@pytest.mark.parametrize(
    ("seeds", "sentence"),
    [
        (5.5, "seeds must be a list of whole numbers, but they are 5.5"),
        (3, "but they are 3: write seeds=range"),
        ("3", "but they are '3'"),
        ([0.5], "seed 0 is 0.5"),
        ([0, -1], "seed 1 is -1"),
        ([True], "seed 0 is True"),
        ([2**32], "seed 0 is 4294967296"),
        ([0, 1, 0], "0 occurs twice"),
        ([], "seeds are an empty list"),
    ],
)
def test_seeds_are_different_whole_numbers(seeds, sentence):
    with pytest.raises(t.UserError, match=sentence):
        t.sweep(t.FedAvg(t.Full(), lr=0.1), PROBLEM, {"lr": [0.1]}, seeds=seeds, rounds=1)


@pytest.mark.longer
def test_a_trace_says_how_far_it_went_why_it_ended_and_the_last_metrics():
    run, gradient = t.FedAvg(t.Full(), lr=0.1), t.Target("gradient", 0.5, stop=True)
    options = {"rounds": 5, "metrics": ("value",)}
    assert repr(t.run(run, PROBLEM, **options)).startswith("Trace('run', round=5, value=")
    met = t.run(run, PROBLEM, **{**options, "rounds": 50}, target=gradient)
    assert repr(met).endswith(f"met its target at round {met.met})") and f"round={met.met}, " in repr(met)
    stopped = t.run(run, PROBLEM, **options, callbacks=[t.EarlyStopping("value", patience=1, min_delta=9.0)])
    assert repr(stopped).endswith("stopped by a callback at round 1)")
    with pytest.warns(t.Caution):
        assert "diverged at round" in repr(t.run(t.FedAvg(t.Full(), lr=10.0, steps=40), PROBLEM, **options))
