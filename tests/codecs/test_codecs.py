"""Codecs: sizes of payloads to the bit, unbiasedness and contraction."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import turnout as t
from tests.helpers.borders import border
from tests.helpers.examples import CODECS
from turnout.codecs.base import round_trip
from turnout.codecs.bits import pack, packed_size, rounded, uniform, unpack
from turnout.codecs.sparsification import SHORT, WIDTH, largest_places
from turnout.core.messages import payload

UNBIASED = ("identity", "natural", "qsgd", "rand-k")
DETERMINISTIC = ("cast", "sign", "top-k")

plain = settings(deadline=None, max_examples=40)

SIZES = st.sampled_from((2, 9, 40))
"""Each size is another program."""

compiled_round_trip = functools.cache(lambda codec: jax.jit(round_trip(codec)))
compiled_pack, compiled_unpack = jax.jit(pack, static_argnums=1), jax.jit(unpack, static_argnums=(1, 2))


@pytest.mark.slow
@plain
@given(st.data(), st.integers(1, 32), st.sampled_from((0, 1, 50)))
def test_packed_numbers_come_back_and_take_their_bits(data, bits, count):
    values = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=count, max_size=count))
    packed = compiled_pack(jnp.asarray(values, "uint32"), bits)
    assert packed.dtype == jnp.uint8 and packed.shape == (packed_size(count, bits),) == (math.ceil(count * bits / 8),)
    assert compiled_unpack(packed, count, bits).tolist() == values


def test_packed_bits_are_a_little_endian_stream():
    generator = np.random.default_rng(0)
    values = generator.integers(0, 2**11, 21)
    stream = sum(int(value) << (11 * k) for k, value in enumerate(values))
    assert bytes(np.asarray(pack(jnp.asarray(values, "uint32"), 11))) == stream.to_bytes(math.ceil(21 * 11 / 8), "little")


BYTES = {
    "cast": 2 * 37,
    "eigenpairs": 8 * 37,
    "identity": 8 * 37,
    "low-rank": 8 * 37,
    "natural": math.ceil(37 * 12 / 8),
    "qsgd": math.ceil(37 * 3 / 8) + 2,
    "rand-k": 8 * 19,
    "sign": math.ceil(37 / 8) + 8,
    "top-k": 8 * 19 + math.ceil(37 / 8),
}


@pytest.mark.tiers(longer=["natural", "qsgd"])
@pytest.mark.parametrize("name", CODECS)
def test_payloads_have_the_size_that_a_hand_count_gives(name):
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=37))
        assert payload(CODECS[name].encode(x, jax.random.key(0))) == BYTES[name]


def test_matrices_of_low_rank_come_back_and_others_as_their_projection():
    generator = np.random.default_rng(0)
    codec, key = t.codecs.LowRank(rank=2), jax.random.key(3)
    thin = generator.normal(size=(20, 2)) @ generator.normal(size=(2, 30))
    with jax.enable_x64(True):
        np.testing.assert_allclose(round_trip(codec)(jnp.asarray(thin), key), thin, atol=1e-12)
        full = generator.normal(size=(20, 30))
        near = np.asarray(round_trip(codec)(jnp.asarray(full), key))
        assert np.linalg.matrix_rank(near) == 2
        assert abs(np.vdot(near, full - near)) < 1e-10
        assert payload(codec.encode(jnp.asarray(full), key)) == 8 * 2 * (20 + 30)


@pytest.mark.tiers(longer=["shape0"])
@pytest.mark.parametrize("shape", [(5, 5, 12, 64), (64, 12, 5, 5), (300, 64), (8, 8, 5, 60)])
def test_arrays_are_matrices_of_their_first_axes_by_the_others_where_both_are_least(shape):
    codec, key = t.codecs.LowRank(rank=2), jax.random.key(3)
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).normal(size=shape))
        sides = [(math.prod(shape[:axis]), math.prod(shape[axis:])) for axis in range(1, len(shape))]
        rows, columns = min(sides, key=lambda pair: pair[0] + pair[1])
        near = round_trip(codec)(x, key)
        assert payload(codec.encode(x, key)) == 8 * 2 * (rows + columns) and near.shape == shape
        assert np.linalg.matrix_rank(near.reshape(rows, columns)) == 2


@pytest.mark.tiers(quick=[], slow=["8"])
@pytest.mark.parametrize("bits", [4, 6, 8])
def test_factors_in_few_bits_are_the_levels_nearest_to_a_projection(bits):
    """Against NumPy: a level is the nearest of M (j / s)^(3/2), and coordinates are least squares in the rounded basis."""
    generator, rank, steps = np.random.default_rng(0), 3, 2 ** (bits - 1)
    levels = (np.arange(1, steps + 1) / steps) ** 1.5

    def nearest(factor, largest):
        shares = np.abs(factor) / largest
        return np.sign(factor) * largest * levels[np.abs(shares[..., None] - levels).argmin(-1)]

    codec, key = t.codecs.LowRank(rank=rank, bits=bits), jax.random.key(3)
    with jax.enable_x64(True):
        x = generator.normal(size=(40, 30))
        basis, coordinates = codec.encode(jnp.asarray(x), key)
        assert payload((basis, coordinates)) == rank * (math.ceil(40 * bits / 8) + math.ceil(30 * bits / 8) + 2 + 2)
        largest = [np.asarray(scale, float) for _, scale in (basis, coordinates)]
        exact, _ = np.linalg.qr(x @ np.asarray(jax.random.normal(key, (30, rank), "float64")))
        assert (np.abs(exact).max(0) <= largest[0]).all() and (largest[0] <= np.abs(exact).max(0) * (1 + 2.0**-7)).all()
        rounded = nearest(exact, largest[0])
        own = np.linalg.lstsq(rounded, x, rcond=None)[0].T
        near = np.asarray(round_trip(codec)(jnp.asarray(x), key))
        np.testing.assert_allclose(near, rounded @ nearest(own, largest[1]).T, atol=1e-10)


@pytest.mark.slow
def test_rounded_columns_that_are_the_same_and_matrices_of_zeros_have_finite_factors():
    for x in (jnp.zeros((6, 30)), jnp.ones((6, 30)), jnp.eye(6)):
        assert jnp.isfinite(round_trip(t.codecs.LowRank(rank=2, bits=2))(x, jax.random.key(0))).all()


@pytest.mark.tiers(quick=["identity"], longer=["qsgd"])
@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased_codecs_have_the_mean_and_at_most_the_variance_that_they_declare(name):
    codec, draws = CODECS[name], 4000
    x = jnp.asarray(np.random.default_rng(1).normal(size=12) * np.geomspace(1e-3, 10, 12))
    keys = jax.random.split(jax.random.key(0), draws)
    coded = np.asarray(jax.vmap(lambda key: round_trip(codec)(x, key))(keys), float)
    error = coded.std(0) / math.sqrt(draws)
    assert np.all(np.abs(coded.mean(0) - x) <= 5 * error + 1e-6 * np.abs(x))
    squares = np.sum((coded - np.asarray(x)) ** 2, 1)
    bound = codec.variance(12) * float(jnp.sum(x**2))
    assert squares.mean() <= bound + 4 * squares.std() / math.sqrt(draws) + 1e-9
    if name == "rand-k":
        np.testing.assert_allclose(squares.mean(), bound, atol=4 * squares.std() / math.sqrt(draws))


@pytest.mark.tiers(quick=["3", "4", "5", "6", "8"], longer=["2", "7"])
@pytest.mark.parametrize("bits", range(1, 9))
def test_the_expectation_of_stochastic_rounding_is_exact(bits):
    """Over u on a fine grid the mean of floor(x + u) is x, which is all that randomness does in a quantiser."""
    x, grid = jnp.asarray(np.random.default_rng(bits).uniform(0, 2**bits, 50)), 2**12
    u = jnp.asarray((np.arange(grid) + 0.5) / grid)
    means = jnp.mean(jax.vmap(lambda u: rounded(x, jnp.broadcast_to(u, x.shape)))(u), 0)
    np.testing.assert_allclose(means, x, atol=2 / grid)
    x = np.random.default_rng(0).normal(size=30)
    values = round_trip(t.codecs.Qsgd(bits=bits))(jnp.asarray(x), jax.random.key(1))
    gap = 2 * np.abs(x).max() / (1 if bits == 1 else 2**bits - 2)
    assert np.all(np.abs(values - x) <= gap * (1 + 2**-7))


def test_the_random_numbers_of_rounding_are_uniform():
    drawn = np.asarray(uniform(jax.random.key(5), 2**16, "float32"))
    counts = np.histogram(drawn, 64, (0, 1))[0]
    statistic = np.sum((counts - 2**10) ** 2) / 2**10
    assert statistic < 63 + 5 * math.sqrt(2 * 63)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / 2**8
    other = np.asarray(uniform(jax.random.key(6), 2**16, "float32"))
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 5 / 2**8


normal = st.floats(-(2.0**99), 2.0**99, width=32).filter(lambda x: x == 0 or abs(x) > 1e-30)


@pytest.mark.parametrize("name", DETERMINISTIC)
@plain
@given(arrays(np.float32, SIZES, elements=normal))
def test_contractions_hold_on_any_vector(name, x):
    codec = CODECS[name]
    coded = np.asarray(compiled_round_trip(codec)(jnp.asarray(x), None), float)
    bound = (1 - codec.contraction(x.size)) * np.sum(x.astype(float) ** 2)
    assert np.sum((coded - x) ** 2) <= bound * (1 + 1e-5) + 1e-5 * np.max(np.abs(x), initial=0).astype(float) ** 2


@pytest.mark.longer
@plain
@given(arrays(np.float64, SIZES, elements=st.floats(-1e9, 1e9)), st.sampled_from((1, 5, 40)))
def test_top_k_keeps_the_largest(x, count):
    codec = t.codecs.TopK(count=min(count, x.size))
    with jax.enable_x64(True):
        coded = np.asarray(compiled_round_trip(codec)(jnp.asarray(x), None))
    kept = np.sort(np.abs(x))[::-1][: min(count, x.size)]
    np.testing.assert_array_equal(np.sort(np.abs(coded))[::-1][: kept.size], kept)
    assert set(coded[coded != 0]) <= set(x)


@pytest.mark.tiers(quick=[], longer=["6-5"])
@pytest.mark.parametrize(("count", "places"), [(6, math.ceil(6 * 6 / 8)), (7, math.ceil(37 / 8))])
def test_places_of_top_k_are_numbers_or_marks_whichever_are_fewer(count, places):
    x = jnp.asarray(np.random.default_rng(2).normal(size=37), "float32")
    codec = t.codecs.TopK(count=count)
    assert payload(codec.encode(x, None)) == 4 * count + places
    expected = np.where(np.abs(x) >= np.sort(np.abs(x))[-count], x, 0)
    np.testing.assert_array_equal(round_trip(codec)(x, None), expected)
    assert payload(t.codecs.TopK(count=count, bits=3).encode(x, None)) == math.ceil(3 * count / 8) + 2 + places


@pytest.mark.longer
@pytest.mark.parametrize("bits", [2, 3, 8])
@plain
@given(arrays(np.float32, 24, elements=normal), st.sampled_from((1, 11, 24)))
def test_rounded_numbers_of_top_k_are_the_nearest_levels(bits, x, count):
    coded = np.asarray(compiled_round_trip(t.codecs.TopK(count=count, bits=bits))(jnp.asarray(x), None), float)
    steps, largest = 2 ** (bits - 1), np.max(np.abs(x)).astype(float)
    levels = (np.arange(1, steps + 1) / steps) ** 1.5
    if largest == 0:
        assert not coded.any()
        return
    top = np.max(np.abs(coded)) / largest
    assert 1 - 1e-6 <= top <= 1 + 2**-7
    kept = np.argsort(-np.abs(x), kind="stable")[:count]
    share, error = np.abs(x[kept]) / (top * largest), np.abs(coded[kept] - x[kept]) / (top * largest)
    np.testing.assert_allclose(error, np.min(np.abs(share[:, None] - levels), axis=1), atol=1e-5)
    assert np.count_nonzero(coded) == count


@pytest.mark.parametrize("crowded", [False, True])
def test_the_largest_of_a_long_array_are_found_wherever_they_are(crowded):
    """Also where one row holds more of them than the first look at each row takes."""
    size, k = 3 * SHORT + 17, 500
    x = np.random.default_rng(0).normal(size=size).astype("float32")
    if crowded:
        x[WIDTH : 2 * WIDTH] *= 1000
    places = np.asarray(jax.jit(largest_places, static_argnums=1)(jnp.asarray(x), k))
    assert set(places) == set(np.argsort(-np.abs(x))[:k])


def test_bad_codecs_are_refused_in_one_sentence():
    x = t.Quadratic.random(6, 3)
    bad = [
        (lambda: t.codecs.TopK(), "give one of the two"),
        (lambda: t.codecs.TopK(fraction=0.1, count=3), "give one of the two"),
        (lambda: t.codecs.TopK(fraction=1.5), "TopK.fraction"),
        (lambda: t.codecs.Qsgd(bits=9), "Qsgd.bits"),
        (lambda: t.codecs.TopK(count=3, bits=1), "TopK.bits"),
        (lambda: t.Exchange(), "compresses nothing"),
        (lambda: t.Exchange(up=t.codecs.Sign(), feedback="ef20"), "feedback"),
        (lambda: t.run(t.MbGd(t.Full(), lr=0.1), x, rounds=1, exchange=t.Exchange(up=t.codecs.TopK(count=4))), "has 3"),
    ]
    for make, words in bad:
        with pytest.raises(t.UserError, match=words):
            make()


CASTS = {dtype: t.codecs.Cast(dtype) for dtype in ("bfloat16", "float16", "float32")}
NUMBERS = arrays(
    np.float64, 9, elements=st.floats(-1, 1, allow_subnormal=False).filter(lambda value: value == 0 or abs(value) > 1e-12)
)


@border(
    dtype=st.sampled_from([*CASTS]), values=NUMBERS, power=st.integers(-80, 80), precision=st.sampled_from(["single", "double"])
)
def test_casts_keep_their_bound_at_every_scale(dtype, values, power, precision):
    """|C(x)_k - x_k| <= 2^-p |x_k|, or 2^-39 of the largest of float16; so |C(x) - x|^2 <= (1 - alpha) |x|^2."""
    bits = {"bfloat16": 8, "float16": 11, "float32": 24}[dtype]
    with jax.enable_x64(precision == "double"):
        x = jnp.asarray(values * 2.0**power)
        coded = np.asarray(compiled_round_trip(CASTS[dtype])(x, jax.random.key(0)), float)
    x, rest = np.asarray(x, float), 2.0**-39 if dtype == "float16" else 0.0
    error = np.abs(coded - x)
    assert np.all(error <= np.maximum(2.0**-bits * np.abs(x), rest * np.abs(x).max()))
    assert np.sum(error**2) <= (1 - CASTS[dtype].contraction(9)) * np.sum(x**2) * (1 + 1e-12)


@pytest.mark.longer
@border(
    name=st.sampled_from(sorted({*CODECS} - {"low-rank"})), values=NUMBERS, power=st.integers(-60, 80), seed=st.integers(0, 99)
)
def test_codecs_know_no_scale(name, values, power, seed):
    """C(2^k x) = 2^k C(x) with the same key: no number vanishes or saturates."""
    key = jax.random.key(seed)
    with jax.enable_x64(True):
        coded, scaled = (compiled_round_trip(CODECS[name])(jnp.asarray(values * 2.0**k), key) for k in (0, power))
    np.testing.assert_array_equal(np.asarray(scaled), np.asarray(coded) * 2.0**power)


def test_float16_stays_infinite_and_takes_two_bytes_more():
    """A run that diverges is not made finite, and the hand count has the shift."""
    x = jnp.array([1.0, jnp.inf, jnp.nan])
    assert not np.isfinite(round_trip(CASTS["float16"])(x, None))[1:].any()
    assert payload(CASTS["float16"].encode(x, None)) == 2 * 3 + 2
