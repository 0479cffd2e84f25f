"""How fast codecs are in compiled code: gigabytes of numbers a second that become a payload, and numbers again."""

from statistics import median

import jax
import numpy as np

from benchmarks.timing import SEED, Line, alternate, seconds
from turnout.codecs import Cast, Natural, Qsgd, RandK, Sign, TopK
from turnout.codecs.base import Codec

NUMBERS = 10**7
CODECS: dict[str, tuple[Codec, float | None]] = {
    "bfloat16": (Cast("bfloat16"), 1.0),
    "float16": (Cast("float16"), 1.0),
    "top-k, 1 %": (TopK(fraction=0.01), 0.2),
    "qsgd, 1 bit": (Qsgd(bits=1), 0.2),
    "qsgd, 4 bits": (Qsgd(bits=4), 0.2),
    "qsgd, 8 bits": (Qsgd(bits=8), 0.2),
    "natural": (Natural(), None),
    "sign": (Sign(), None),
    "rand-k, 1 %": (RandK(fraction=0.01), None),
}


def measure() -> list[Line]:
    """Return the speed of each codec in single precision."""
    x = jax.numpy.asarray(np.random.default_rng(SEED).normal(size=NUMBERS), "float32")
    like, key = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.random.key(SEED)
    timed, back = {}, {}
    for name, (codec, _) in CODECS.items():
        encode = jax.jit(codec.encode)
        decode = jax.jit(lambda payload, key, codec=codec: codec.decode(payload, like, key))
        payload = jax.block_until_ready(encode(x, key))
        timed[name] = lambda encode=encode: seconds(lambda: jax.block_until_ready(encode(x, key)))
        back[name] = lambda decode=decode, payload=payload: seconds(lambda: decode(payload, key).block_until_ready())
    taken, taken_back = alternate(timed), alternate(back)
    speed = {name: x.nbytes / median(times) / 1e9 for name, times in taken.items()}
    return [
        Line(
            "codecs", f"{name}: encoding", speed[name], bar, at_least=True, unit="GB/s",
            note=f"decoding {x.nbytes / median(taken_back[name]) / 1e9:.2g} GB/s",
            settings={"numbers": NUMBERS, "dtype": "float32", "seeds": [SEED]},
            timings={"encoding": taken[name], "decoding": taken_back[name]},
        )
        for name, (_, bar) in CODECS.items()
    ]  # fmt: skip
