"""The embedding layer: a learned row for every number.

Knows nothing of other layers.
"""

from __future__ import annotations

from typing import Any

from functad import numpy as jnp
from functad.dtypes import kind_of
from functad.errors import ArgumentError, DTypeError, check_int
from functad.nn.functions import first_outside
from functad.nn.initializers import Initializer, normal
from functad.nn.layer import Layer, check_one_array, check_params

_NORMAL = normal(1.0)


def Embedding(count: int, features: int, embedding_init: Initializer = _NORMAL, dtype: Any = None) -> Layer:
    """Replace each integer by its row of a learned table.

    The gradient adds up the cotangents of equal integers (a scatter-add); rows that do not occur get zero.

    Args:
        count: the number of rows: inputs are 0..count-1.
        features: the size of a row.
        embedding_init: called as `init(key, shape, dtype)`; by default a normal distribution of deviation 1.
        dtype: of the table; by default the default float.

    Returns:
        A layer from integers of shape (…) to (…, features). Its params are a dict: "embedding" of shape
        (count, features). In place of it `apply` takes some rows of it, {"rows": (n, features)}, and numbers of these:
        gradients in them cost what they do, where one in the table costs what the table does (see `optim.lazy`).

    Raises:
        ArgumentError: `count` or `features` is no positive int, or an input is no row. Inside of `jit` inputs have no
            values yet and are not checked.
        DTypeError: the input holds no integers. TreeError: the params are not those of such a layer.

    >>> import functad, functad.numpy as jnp
    >>> layer = Embedding(5, 3)
    >>> words = jnp.array([[1, 4, 4, 0]])
    >>> params = layer.init(functad.random.key(0), words)
    >>> layer.apply(params, words).shape
    (1, 4, 3)
    >>> functad.grad(lambda p: layer.apply(p, words).sum())(params)["embedding"][:, 0]
    Array([1., 1., 0., 0., 2.], dtype=float32)
    """
    name = f"Embedding({count}, {features})"
    count = check_int(count, "Embedding: count", low=1)
    features = check_int(features, "Embedding: features", low=1)
    wanted: dict[str, tuple[int | None, ...]] = {"embedding": (count, features)}

    def init(key: Any, x: Any) -> dict[str, Any]:
        _check_integers(x, name)
        return {"embedding": embedding_init(key, (count, features), dtype)}

    def apply(params: Any, x: Any, *, key: Any = None, train: bool = False) -> Any:
        some = isinstance(params, dict) and set(params) == {"rows"}
        check_params(params, {"rows": (None, features)} if some else wanted, name)
        table = jnp.asarray(params["rows" if some else "embedding"])
        check_one_array(x, name)
        x = jnp.asarray(x)
        _check_integers(x, name)
        rows = table.shape[0]
        wrong = first_outside(x, rows)
        if wrong is not None:
            raise ArgumentError(f"{name}: the input holds {wrong}, but there are {rows} rows (0..{rows - 1})")
        return table[x]

    return Layer(init, apply, name)


def _check_integers(x: Any, name: str) -> None:
    check_one_array(x, name)
    if kind_of(x.dtype) not in "iu":
        raise DTypeError(
            f"{name}: the input has dtype {x.dtype.name}, but must hold integers, the numbers of rows; "
            "convert it with x.astype('int32')"
        )
