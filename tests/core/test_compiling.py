"""Programs: alone, and inside others."""

import jax
import jax.numpy as jnp

from turnout.core.compiling import program


def test_a_program_inside_another_is_a_part_of_it():
    more = program(lambda x: x + 1.0)
    assert more(1.0) == 2.0
    assert jax.jit(lambda x: 2 * more(x))(1.0) == 4.0
    assert jax.vmap(more)(jnp.arange(2.0)).tolist() == [1.0, 2.0]
    assert jax.grad(lambda x: more(x) ** 2)(1.0) == 4.0
    assert jax.eval_shape(more, 1.0).shape == ()
