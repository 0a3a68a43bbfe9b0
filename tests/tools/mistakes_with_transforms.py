"""Mistakes with transforms, their arguments, and functions that loops take.

What each case says: `mistake_cases`.
"""

from __future__ import annotations

WITH_TRANSFORMS: list[tuple[str, str, tuple[str, ...]]] = [
    (
        "grad of a vector",
        """
functad.grad(lambda x: x * 2)(jnp.ones(3))  # here
""",
        ("jacrev",),
    ),
    (
        "grad at an integer",
        """
functad.grad(lambda x: x * 2.0)(3)  # here
""",
        ("float",),
    ),
    (
        "grad with the wrong argnums",
        """
functad.grad(lambda x: x * 2.0, argnums=1)(3.0)  # here
""",
        ("argnums",),
    ),
    (
        "grad of a function that returns two things",
        """
functad.grad(lambda x: (x * 2.0, x))(3.0)  # here
""",
        ("has_aux",),
    ),
    (
        "has_aux without a pair",
        """
functad.grad(lambda x: x * 2.0, has_aux=True)(3.0)  # here
""",
        ("pair",),
    ),
    (
        "grad returns None",
        """
def loss(x):
    x * 2.0
functad.grad(loss)(3.0)  # here
""",
        ("return",),
    ),
    (
        "grad of a result",
        """
functad.grad((lambda x: x * 2.0)(3.0))  # here
""",
        ("function",),
    ),
    (
        "grad called with the arguments",
        """
functad.grad(lambda x, y: x * y, 2.0, 3.0)  # here
""",
        ("argnums",),
    ),
    (
        "a complex result",
        """
functad.grad(lambda x: x * 1j)(3.0)  # here
""",
        ("holomorphic",),
    ),
    (
        "jvp with other shapes",
        """
functad.jvp(jnp.sin, (jnp.ones(3),), (jnp.ones(2),))  # here
""",
        ("tangent",),
    ),
    (
        "jvp without tuples",
        """
functad.jvp(jnp.sin, 1.0, 1.0)  # here
""",
        ("tuple",),
    ),
    (
        "jvp with an integer tangent",
        """
functad.jvp(jnp.sin, (1.0,), (1,))  # here
""",
        ("float",),
    ),
    (
        "a pullback with a wrong cotangent",
        """
y, back = functad.vjp(lambda x: jnp.ones(3) * x, 2.0)
back(jnp.ones(2))  # here
""",
        ("f32[3]",),
    ),
    (
        "a custom rule that returns too much",
        """
@functad.custom_vjp
def f(x):
    return x
f.defvjp(lambda x: (x, None), lambda r, g: (g, g))
functad.grad(f)(1.0)  # here
""",
        ("one",),
    ),
    (
        "custom_vjp without rules",
        """
@functad.custom_vjp
def f(x):
    return x
functad.grad(f)(1.0)  # here
""",
        ("defvjp",),
    ),
    (
        "string as parameter",
        """
functad.grad(lambda p: p["w"] ** 2)({"w": 1.0, "name": "linear"})  # here
""",
        ("name",),
    ),
    (
        "sizes that differ",
        """
functad.vmap(lambda x, y: x + y)(jnp.ones(3), jnp.ones(4))  # here
""",
        ("in_axes",),
    ),
    (
        "vmap of a number",
        """
functad.vmap(lambda x, y: x + y)(jnp.ones(3), 1.0)  # here
""",
        ("None",),
    ),
    (
        "in_axes of the wrong length",
        """
functad.vmap(lambda x, y: x + y, in_axes=(0,))(jnp.ones(3), jnp.ones(3))  # here
""",
        ("in_axes",),
    ),
    (
        "an axis that is not there",
        """
functad.vmap(lambda x: x, in_axes=1)(jnp.ones(3))  # here
""",
        ("axis",),
    ),
    (
        "all axes None",
        """
functad.vmap(lambda x: x, in_axes=None)(jnp.ones(3))  # here
""",
        ("in_axes",),
    ),
    (
        "a collective outside of vmap",
        """
functad.jit(lambda x: lax.psum(x, "batch"))(1.0)  # here
""",
        ("axis_name",),
    ),
    (
        "a wrong option",
        """
functad.config.enable_x46 = True  # here
""",
        ("enable_x64",),
    ),
    (
        "a wrong value of an option",
        """
functad.config.default_backend = "gpu"  # here
""",
        ("cuda",),
    ),
    (
        "jit with a wrong backend",
        """
functad.jit(lambda x: x, backend="gpu")  # here
""",
        ("cuda",),
    ),
    (
        "static_argnames that are not there",
        """
functad.jit(lambda x, n: x, static_argnames="m")(1.0, 2)  # here
""",
        ("m",),
    ),
    (
        "a static argument that cannot be hashed",
        """
functad.jit(lambda x, n: x, static_argnums=1)(1.0, [2])  # here
""",
        ("tuple",),
    ),
    (
        "an argument that is no array",
        """
functad.jit(lambda x: x)(object())  # here
""",
        ("static_argnames",),
    ),
    (
        "jit of no function",
        """
functad.jit(3.0)  # here
""",
        ("function",),
    ),
    (
        "no choice",
        """
random.choice(random.key(0), 5, (10,), replace=False)  # here
""",
        ("replace",),
    ),
    (
        "a carry that changes its dtype",
        """
lax.scan(lambda c, x: (c + 0.5, None), jnp.int32(0), jnp.arange(3))  # here
""",
        ("carry",),
    ),
    (
        "a body that returns no pair",
        """
lax.scan(lambda c, x: c + x, 0.0, jnp.ones(3))  # here
""",
        ("pair",),
    ),
    (
        "scan over inputs of several lengths",
        """
lax.scan(lambda c, x: (c, None), 0.0, (jnp.ones(3), jnp.ones(4)))  # here
""",
        ("3", "4"),
    ),
    (
        "a condition that is no bool",
        """
lax.while_loop(lambda x: x, lambda x: x - 1, 3.0)  # here
""",
        ("bool",),
    ),
    (
        "branches that differ",
        """
lax.cond(True, lambda x: x, lambda x: x.astype(int), 1.0)  # here
""",
        ("branch",),
    ),
    (
        "cond with values",
        """
lax.cond(True, 1.0, 2.0)  # here
""",
        ("function",),
    ),
    (
        "parameters of another structure",
        """
optimizer = optim.sgd(0.1)
state = optimizer.init({"w": jnp.ones(3)})
optim.apply_updates({"w": jnp.ones(3)}, {"w": jnp.ones(3), "b": jnp.ones(3)})  # here
""",
        ("b",),
    ),
    (
        "a sequence of carries",
        """
lax.scan(lambda c, x: ([c, c], None), 0.0, jnp.ones(3))  # here
""",
        ("containers",),
    ),
    (
        "backward",
        """
jnp.ones(3).sum().backward()  # here
""",
        ("functad.grad",),
    ),
    (
        "scan without return",
        """
def body(c, x):
    c = c + x
lax.scan(body, 0.0, jnp.ones(3))  # here
""",
        ("(carry, y)", "`return` missing", "return `carry, None`"),
    ),
    (
        "a loss without return",
        """
def loss(w):
    value = w**2
functad.value_and_grad(loss)(2.0)  # here
""",
        ("None (is a `return` missing?)", "Return the loss"),
    ),
    (
        "a body with too few arguments",
        """
lax.fori_loop(0, 3, lambda x: x + 1, 0.0)  # here
""",
        ("<lambda>(x)", "2 arguments", "body_fun(i, value)"),
    ),
    (
        "branches that take other operands",
        """
lax.cond(True, lambda x: x, lambda x: -x, 1.0, 2.0)  # here
""",
        ("<lambda>(x)", "*operands"),
    ),
    (
        "static_argnums with a name",
        """
@functad.jit(static_argnums="n")  # here
def power(x, n):
    return x**n
""",
        ("positions", "static_argnames"),
    ),
    (
        "a generator as a result",
        """
functad.jit(lambda x: (x * i for i in range(3)))(1.0)  # here
""",
        ("generator", "Return arrays and numbers only"),
    ),
    (
        "in_axes of other keys",
        """
functad.vmap(lambda p, x: p["w"] * x, in_axes=({"v": 0}, 0))({"w": jnp.ones(3)}, jnp.ones(3))  # here
""",
        ("in_axes", "'w'"),
    ),
]
