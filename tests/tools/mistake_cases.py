"""Mistakes that beginners make, and what errors must say of them.

Each is a title, a program, whose line marked `# here` is at fault, and words of the message: what is wrong, then what
helps.
"""

from __future__ import annotations

PREAMBLE = """\
import math
import numpy as np
import functad
import functad.numpy as jnp
from functad import data, lax, nn, optim, random
"""

MISTAKES: list[tuple[str, str, tuple[str, ...]]] = [
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
        "shapes that do not broadcast",
        """
jnp.ones(3) + jnp.ones(4)  # here
""",
        ("(3,)", "(4,)"),
    ),
    (
        "shapes that do not broadcast under jit",
        """
functad.jit(lambda x, y: x + y)(jnp.ones(3), jnp.ones(4))  # here
""",
        ("(3,)", "(4,)"),
    ),
    (
        "matrix product",
        """
jnp.ones((2, 3)) @ jnp.ones((2, 3))  # here
""",
        ("3", "2"),
    ),
    (
        "reshape",
        """
jnp.ones(6).reshape(4, 2)  # here
""",
        ("6",),
    ),
    (
        "an axis out of range",
        """
jnp.sum(jnp.ones(3), axis=1)  # here
""",
        ("axis 1",),
    ),
    (
        "concatenate of ranks",
        """
jnp.concatenate([jnp.ones(3), jnp.ones((3, 1))])  # here
""",
        ("stack",),
    ),
    (
        "concatenate of arrays, not a list",
        """
jnp.concatenate(jnp.ones(3), jnp.ones(3))  # here
""",
        ("concatenate",),
    ),
    (
        "stack of shapes",
        """
jnp.stack([jnp.ones(3), jnp.ones(2)])  # here
""",
        ("(2,)",),
    ),
    (
        "a string",
        """
jnp.ones(3) * "2"  # here
""",
        ("str",),
    ),
    (
        "a float index",
        """
jnp.arange(5)[1.0]  # here
""",
        ("int",),
    ),
    (
        "too many indices",
        """
jnp.arange(5)[1, 2]  # here
""",
        ("1",),
    ),
    (
        "an index out of range",
        """
jnp.arange(5)[7]  # here
""",
        ("7", "5"),
    ),
    (
        "a shape of floats",
        """
jnp.zeros(3.0)  # here
""",
        ("int",),
    ),
    (
        "an unknown dtype",
        """
jnp.zeros(3, dtype="flaot32")  # here
""",
        ("flaot32",),
    ),
    (
        "bitwise and of floats",
        """
jnp.ones(3) & jnp.ones(3)  # here
""",
        ("bool",),
    ),
    (
        "the truth of an array",
        """
if jnp.ones(3):  # here
    pass
""",
        ("any",),
    ),
    (
        "einsum",
        """
jnp.einsum("ij,jk->il", jnp.ones((2, 3)), jnp.ones((3, 4)))  # here
""",
        ("l",),
    ),
    (
        "a ragged array",
        """
jnp.asarray([[1, 2], [3]])  # here
""",
        (),
    ),
    (
        "a misspelt name",
        """
jnp.relu6  # here
""",
        ("relu6",),
    ),
    (
        "a name of PyTorch",
        """
jnp.cat  # here
""",
        ("concatenate",),
    ),
    (
        "a name of functad that is not there",
        """
functad.pmap  # here
""",
        ("vmap",),
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
        "no key",
        """
random.normal((3,))  # here
""",
        ("key",),
    ),
    (
        "a number as key",
        """
random.normal(0, (3,))  # here
""",
        ("random.key(",),
    ),
    (
        "arithmetic with a key",
        """
random.key(0) + 1  # here
""",
        ("fold_in",),
    ),
    (
        "a batch of keys",
        """
random.normal(random.split(random.key(0), 3), (2,))  # here
""",
        ("vmap",),
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
        "labels of the wrong shape",
        """
nn.losses.softmax_cross_entropy_with_integer_labels(jnp.ones((4, 10)), jnp.zeros((5,), int))  # here
""",
        ("(4, 10)", "(5,)"),
    ),
    (
        "labels that are floats",
        """
nn.losses.softmax_cross_entropy_with_integer_labels(jnp.ones((4, 10)), jnp.zeros(4))  # here
""",
        ("int",),
    ),
    (
        "inputs of another size",
        """
network = nn.Dense(3)
params = network.init(random.key(0), jnp.ones((2, 4)))
network.apply(params, jnp.ones((2, 5)))  # here
""",
        ("4", "5"),
    ),
    (
        "images without a channel axis",
        """
network = nn.Conv(3, (3, 3))
network.init(random.key(0), jnp.ones((2, 28, 28)))  # here
""",
        ("channel",),
    ),
    (
        "a layer without parentheses",
        """
nn.serial(nn.Dense, nn.Relu())  # here
""",
        ("Dense",),
    ),
    (
        "tree.map of trees that differ",
        """
functad.tree.map(lambda a, b: a + b, {"w": 1}, {"v": 1})  # here
""",
        ("w",),
    ),
    (
        "a sequence of carries",
        """
lax.scan(lambda c, x: ([c, c], None), 0.0, jnp.ones(3))  # here
""",
        ("containers",),
    ),
    (
        "a name of a layer of PyTorch",
        """
jnp.randn  # here
""",
        ("random.normal",),
    ),
    (
        "backward",
        """
jnp.ones(3).sum().backward()  # here
""",
        ("functad.grad",),
    ),
    (
        "an array in a text",
        """
jnp.ones(3) * b"2"  # here
""",
        ("bytes",),
    ),
    (
        "a missing file",
        """
functad.io.load("nowhere.npz")  # here
""",
        ("nowhere.npz",),
    ),
    (
        "a batch that is too large",
        """
list(data.loader((np.ones(3),), 0, key=random.key(0)))  # here
""",
        ("batch",),
    ),
    (
        "an unknown activation",
        """
nn.gleu  # here
""",
        ("gelu",),
    ),
    (
        "a misspelt optimizer",
        """
optim.adamm  # here
""",
        ("adam",),
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
        "arithmetic with None",
        """
functad.grad(lambda w, b: w + b)(1.0, None)  # here
""",
        ("None is no number", "is not None"),
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
        "a key behind the shape",
        """
random.normal((3,), random.key(0))  # here
""",
        ("random key", "the key comes first"),
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
        "a missing key of dropout",
        """
net = nn.serial(nn.Dense(3), nn.Dropout(0.5))
weights = net.init(random.key(0), jnp.ones((2, 4)))
net.apply(weights, jnp.ones((2, 4)), train=True)  # here
""",
        ("random key", "key=step_key"),
    ),
    (
        "the state of another optimizer",
        """
weights = {"w": jnp.ones(2)}
optimizer = optim.adam(0.1)
optimizer.update(weights, optim.sgd(0.1, momentum=0.9).init(weights), weights)  # here
""",
        ("TraceState", "init of this optimizer"),
    ),
    (
        "a string as a result",
        """
functad.jit(lambda x: (x, "done"))(1.0)  # here
""",
        ("'done'", "outside of the function"),
    ),
    (
        "a generator as a result",
        """
functad.jit(lambda x: (x * i for i in range(3)))(1.0)  # here
""",
        ("generator", "Return arrays and numbers only"),
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
        "in_axes of other keys",
        """
functad.vmap(lambda p, x: p["w"] * x, in_axes=({"v": 0}, 0))({"w": jnp.ones(3)}, jnp.ones(3))  # here
""",
        ("in_axes", "'w'"),
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
        "a float of too many bits",
        """
jnp.zeros(3, dtype="float128")  # here
""",
        ("float128", "float64"),
    ),
    (
        "where with a condition only",
        """
functad.jit(lambda x: jnp.where(x > 0))(jnp.ones(3))  # here
""",
        ("size=",),
    ),
    (
        "parameters and inputs exchanged",
        """
net = nn.Dense(3)
weights = net.init(random.key(0), jnp.ones((2, 4)))
net.apply(jnp.ones((2, 4)), weights)  # here
""",
        ("params", "init(key, x)"),
    ),
    (
        "a hash of a traced number",
        """
functad.jit(lambda i: {0: 1.0}[i])(0)  # here
""",
        ("hashed",),
    ),
    (
        "a seed",
        """
random.seed(0)  # here
""",
        ("functad.random.key(0)",),
    ),
    (
        "a dataset that is no pair",
        """
net = nn.Dense(2)
x, y = np.ones((8, 3), np.float32), np.zeros(8, np.int32)
weights = net.init(random.key(0), x)
options = {"until": 1, "batch_size": 4, "key": random.key(1)}
functad.train.fit(functad.train.classifier(net), weights, optim.sgd(0.1), {"x": x, "y": y}, **options)  # here
""",
        ("(inputs, labels)", "functad.train.Dataset"),
    ),
]
