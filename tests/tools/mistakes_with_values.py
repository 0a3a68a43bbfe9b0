"""Mistakes with values that are traced, or cannot be changed.

What each case says: `mistake_cases`.
"""

from __future__ import annotations

WITH_VALUES: list[tuple[str, str, tuple[str, ...]]] = [
    (
        "if under jit",
        """
@functad.jit
def relu(x):
    if x > 0:  # here
        return x
    return 0.0
relu(1.0)
""",
        ("bool", "where"),
    ),
    (
        "while under jit",
        """
@functad.jit
def halve(x):
    while x > 1:  # here
        x = x / 2
    return x
halve(9.0)
""",
        ("while_loop",),
    ),
    (
        "and under jit",
        """
functad.jit(lambda x: (x > 0) and (x < 1))(1.0)  # here
""",
        ("logical_and",),
    ),
    (
        "float under grad",
        """
functad.grad(lambda x: float(x) ** 2)(1.0)  # here
""",
        ("stop_gradient",),
    ),
    (
        "int under jit",
        """
functad.jit(lambda x: jnp.arange(int(x)))(3)  # here
""",
        ("astype",),
    ),
    (
        "range of a traced number",
        """
@functad.jit
def power(x, n):
    for _ in range(n):  # here
        x = x * x
    return x
power(2.0, 3)
""",
        ("static_argnames",),
    ),
    (
        "shape from a traced number",
        """
functad.jit(lambda n: jnp.zeros(n))(3)  # here
""",
        ("static_argnames",),
    ),
    (
        "reshape by a traced number",
        """
functad.jit(lambda x, n: x.reshape(n, -1))(jnp.ones(6), 2)  # here
""",
        ("static_argnames",),
    ),
    (
        "an index of a list",
        """
functad.jit(lambda i: [1.0, 2.0][i])(0)  # here
""",
        ("functad.numpy",),
    ),
    (
        "formatting",
        """
functad.jit(lambda x: f"{x:.3f}")(1.0)  # here
""",
        ("debug.print",),
    ),
    (
        "item under jit",
        """
functad.jit(lambda x: x.item())(1.0)  # here
""",
        (),
    ),
    (
        "numpy.asarray under jit",
        """
functad.jit(lambda x: np.asarray(x) + 1)(1.0)  # here
""",
        ("functad.numpy",),
    ),
    (
        "math.sin",
        """
functad.grad(lambda x: math.sin(x))(1.0)  # here
""",
        ("functad.numpy.sin",),
    ),
    (
        "if of the method any",
        """
@functad.jit
def clipped(x):
    if x.any():  # here, not as any(x) or max(x)
        return x
    return -x
clipped(jnp.ones(3))
""",
        ("if x > 0: y = f(x)", "cond"),
    ),
    (
        "max of Python",
        """
functad.jit(lambda x, y: max(x, y))(1.0, 2.0)  # here
""",
        ("maximum",),
    ),
    (
        "a tracer in a dict key",
        """
functad.jit(lambda x: {x: 1})(1.0)  # here
""",
        ("hash",),
    ),
    (
        "a leaked tracer",
        """
kept = []
functad.jit(lambda x: kept.append(x))(1.0)
kept[0] + 1  # here
""",
        ("return",),
    ),
    (
        "boolean mask under jit",
        """
functad.jit(lambda x: x[x > 0])(jnp.ones(3))  # here
""",
        ("where",),
    ),
    (
        "nonzero under jit",
        """
functad.jit(lambda x: jnp.nonzero(x))(jnp.ones(3))  # here
""",
        ("size",),
    ),
    (
        "unique under jit",
        """
functad.jit(lambda x: jnp.unique(x))(jnp.ones(3))  # here
""",
        ("size",),
    ),
    (
        "if under vmap",
        """
functad.vmap(lambda x: x if x > 0 else -x)(jnp.ones(3))  # here
""",
        ("where",),
    ),
    (
        "a slice of traced length",
        """
functad.jit(lambda x, n: x[:n])(jnp.ones(3), 2)  # here
""",
        ("dynamic_slice",),
    ),
    (
        "item assignment",
        """
x = jnp.zeros(3)
x[0] = 1.0  # here
""",
        (".at[0].set",),
    ),
    (
        "item assignment under jit",
        """
@functad.jit
def f(x):
    x[0] = 1.0  # here
    return x
f(jnp.zeros(3))
""",
        (".at[0].set",),
    ),
    (
        "augmented item assignment",
        """
x = jnp.zeros(3)
x[0] += 1.0  # here
""",
        (".at[0]",),
    ),
    (
        "writing into an array of NumPy",
        """
def f(x):
    out = np.zeros(2)
    out[0] = x  # here
    return out.sum()
functad.grad(f)(1.0)
""",
        (".at[0].set",),
    ),
    (
        "out=",
        """
functad.grad(lambda x: np.add(x, 1.0, out=np.zeros(())))(1.0)  # here
""",
        ("out",),
    ),
    (
        "deleting an item",
        """
x = jnp.zeros(3)
del x[0]  # here
""",
        ("delete",),
    ),
    (
        "an array used after it was donated",
        """
step = functad.jit(lambda x: x + 1, donate_argnums=0)
x = step(jnp.zeros(3))
step(x)
x + 1  # here
""",
        ("donate",),
    ),
    (
        "filling in place",
        """
x = jnp.zeros(3)
x.fill(1.0)  # here
""",
        ("full",),
    ),
    (
        "an array in a text",
        """
jnp.ones(3) * b"2"  # here
""",
        ("bytes",),
    ),
    (
        "a count that is traced",
        """
functad.jit(lambda n: jnp.linspace(0.0, 1.0, n))(5)  # here
""",
        ("static_argnames",),
    ),
    (
        "sizes of a slice that are traced",
        """
functad.jit(lambda x, n: lax.dynamic_slice(x, (0,), (n,)))(jnp.ones(5), 2)  # here
""",
        ("static_argnames",),
    ),
    (
        "assert under jit",
        """
@functad.jit
def root(x):
    assert x > 0  # here
    return jnp.sqrt(x)
root(1.0)
""",
        ("checkify.check(x > 0",),
    ),
    (
        "any of Python",
        """
functad.jit(lambda x: any(x > 0))(jnp.ones(3))  # here
""",
        ("(x > 0).any()",),
    ),
    (
        "sorted",
        """
functad.jit(lambda x: sorted(x))(jnp.ones(3))  # here
""",
        ("functad.numpy.sort(x)",),
    ),
    (
        "membership in a list",
        """
functad.jit(lambda x: x in [1.0, 2.0])(1.0)  # here
""",
        ("functad.numpy.isin",),
    ),
    (
        "appending to an array",
        """
losses = jnp.array([])
losses.append(1.0)  # here
""",
        ("functad.numpy.append", "functad.numpy.stack(list)"),
    ),
    (
        "filling a diagonal in place",
        """
functad.jit(lambda x: np.fill_diagonal(x, 0.0))(jnp.ones((2, 2)))  # here
""",
        ("immutable", "functad.numpy.fill_diagonal"),
    ),
    (
        "numpy.add.at",
        """
functad.jit(lambda x: np.add.at(x, 0, 1.0))(jnp.ones(3))  # here
""",
        ("x.at[i].add(v)",),
    ),
    (
        "at without a method",
        """
jnp.zeros(3).at[0] + 1  # here
""",
        ("x.at[index].set(v)",),
    ),
    (
        "assigning to at",
        """
x = jnp.zeros(3)
x.at[0] = 1.0  # here
""",
        ("x = x.at[index].set(value)",),
    ),
    (
        "a condition of several",
        """
lax.cond(jnp.ones(3) > 0, lambda: 1.0, lambda: 2.0)  # here
""",
        ("bool[3]", "functad.numpy.where"),
    ),
    (
        "iterating over a number",
        """
functad.jit(lambda x: [y for y in x])(1.0)  # here
""",
        ("rank 0", "atleast_1d"),
    ),
    (
        "math.exp of an array",
        """
functad.jit(lambda x: math.exp(x))(jnp.ones(3))  # here
""",
        ("numpy.sin(x)",),
    ),
    (
        "where with a condition only",
        """
functad.jit(lambda x: jnp.where(x > 0))(jnp.ones(3))  # here
""",
        ("size=",),
    ),
    (
        "a hash of a traced number",
        """
functad.jit(lambda i: {0: 1.0}[i])(0)  # here
""",
        ("hashed",),
    ),
]
