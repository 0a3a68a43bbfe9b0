"""Mistakes with shapes, dtypes and names, random keys, layers and optimizers.

What each case says: `mistake_cases`.
"""

from __future__ import annotations

WITH_ARRAYS: list[tuple[str, str, tuple[str, ...]]] = [
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
        "a name of a layer of PyTorch",
        """
jnp.randn  # here
""",
        ("random.normal",),
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
        "arithmetic with None",
        """
functad.grad(lambda w, b: w + b)(1.0, None)  # here
""",
        ("None is no number", "is not None"),
    ),
    (
        "a key behind the shape",
        """
random.normal((3,), random.key(0))  # here
""",
        ("random key", "the key comes first"),
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
        "a float of too many bits",
        """
jnp.zeros(3, dtype="float128")  # here
""",
        ("float128", "float64"),
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
