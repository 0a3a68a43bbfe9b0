"""What the reference says of every function: shapes, errors and parameters, in its own words or those of its family."""

from __future__ import annotations

import ast
import builtins
import functools
import importlib
import inspect
import re
import sys
import types

import pytest
from test_public_names import named

import functad
from docs import shared
from functad import errors, lax, nn, optim
from functad import numpy as jnp
from functad.experimental import checkify

FUNCTIONS = {name: value for name, value in named() if not isinstance(value, type)}
CLASS = re.compile(r"^(?:[\w ]+\. )?((?:\w+(?:Error|Exception))(?:, \w+(?:Error|Exception))*):", re.MULTILINE)
PLACES = (errors, builtins, functad.data, functad.extend.linear_util)
SAYS_ERRORS = re.compile(r"^Raises:|\braises?\b", re.MULTILINE)


def own(value):
    return shared.prose(inspect.getdoc(value) or "")


def parameters(value):
    try:
        return [name for name in inspect.signature(value).parameters if not name.startswith("_")]
    except (TypeError, ValueError):
        return []


def without_shapes():
    return [n for n, f in FUNCTIONS.items() if not shared.says_shapes(own(f)) and "Shapes" not in shared.of(f)]


def without_errors():
    return [n for n, f in FUNCTIONS.items() if not SAYS_ERRORS.search(own(f)) and "Raises" not in shared.of(f)]


def without_parameters():
    """Functions of several parameters that name none of them."""
    for name, value in FUNCTIONS.items():
        said = own(value) + shared.of(value).get("Args", "")
        if len(known := parameters(value)) > 1 and not any(re.search(rf"\b{word}\b", said) for word in known):
            yield name


def test_every_function_says_shapes_errors_and_parameters():
    assert len(FUNCTIONS) > 1300
    assert without_shapes() == []
    assert without_errors() == []
    assert list(without_parameters()) == []


def test_what_is_not_said_is_seen(monkeypatch):
    monkeypatch.setattr(sys.modules["functad.numpy.reductions"], "__doc__", "Reductions.")
    monkeypatch.setattr(sys.modules["functad.numpy"], "__doc__", "Names.")
    assert "functad.numpy.prod" in without_shapes()
    assert "functad.numpy.prod" in without_errors()
    monkeypatch.setattr(jnp.prod, "__doc__", "The product.")
    assert "functad.numpy.prod" in without_parameters()


# --- errors are real ------------------------------------------------------------------------------------------


def raises_section(value):
    """The errors that hold for a function: its own section, or its family's."""
    return shared.sections(inspect.getdoc(value) or "").get("Raises") or shared.of(value).get("Raises", "")


@functools.cache
def definitions(module):
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


@functools.cache
def raised(module, name, with_helpers=True):
    """The classes of errors.py that a function raises itself, or in a private function of its file that it calls."""
    node, found = definitions(module).get(name), set()
    for inner in ast.walk(node) if node else ():
        if isinstance(inner, ast.Raise) and isinstance(inner.exc, ast.Call) and isinstance(inner.exc.func, ast.Name):
            found |= {inner.exc.func.id} & set(vars(errors))
        elif with_helpers and isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            if inner.func.id.startswith("_"):
                found |= raised(module, inner.func.id, with_helpers=False)
    return found


def is_said(error, section):
    """Whether a section names the class of an error, or one that it is of."""
    said = set(re.findall(r"\w+(?:Error|Exception)", section))
    return any(base.__name__ in said for base in getattr(errors, error).__mro__)


def test_what_a_function_raises_is_named():
    silent = []
    for name, value in FUNCTIONS.items():
        python = inspect.unwrap(value)
        if isinstance(python, types.FunctionType) and python.__module__ in sys.modules:
            section = raises_section(value) + own(value)
            found = raised(python.__module__, python.__name__)
            silent += [(name, error) for error in sorted(found) if not is_said(error, section)]
    assert silent == [], silent


def test_errors_that_are_named_exist():
    texts = {name: raises_section(value) for name, value in FUNCTIONS.items()}
    found = {error for text in texts.values() for error in re.findall(r"\b[A-Z]\w+(?:Error|Exception)\b", text)}
    assert len(found) > 15
    assert {error for error in found if not any(hasattr(place, error) for place in PLACES)} == set()


# --- families -------------------------------------------------------------------------------------------------

BROADCAST = "Arguments are arrays or numbers that broadcast"


def of_arrays(value):
    """How many arrays a function of a family takes that broadcast: those that have no default value, or a number."""
    known = inspect.signature(value).parameters.values()
    return sum(
        p.kind is not p.KEYWORD_ONLY and (p.default is p.empty or type(p.default) in (int, float)) for p in known
    )


def broadcasting():
    for name, value in FUNCTIONS.items():
        found = next((s["Shapes"] for _, s in shared.statements(value) if "Shapes" in s), "")
        if found.startswith(BROADCAST) and not shared.says_shapes(own(value)):
            yield name, value


def shapes_of(value, *shapes, dtype="float32"):
    given = [functad.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    return {leaf.shape for leaf in functad.tree.leaves(functad.eval_shape(value, *given))}


def refuses(value, count, dtype):
    """Whether arrays that do not broadcast raise; more arguments than two are scalars."""
    try:
        shapes_of(value, (2,), (3,), *[()] * (count - 2), dtype=dtype)
    except errors.ShapeError:
        return True
    return False


def joins(value, count, dtype):
    """Whether the result has the common shape."""
    given, common = [(2, 1), (3,), *[()] * (count - 2)], (2, 3) if count > 1 else (2, 1)
    return shapes_of(value, *given[:count], dtype=dtype) == {common}


def in_its_dtype(check, value):
    try:
        return check(value, of_arrays(value), "float32")
    except (errors.DTypeError, errors.ArgumentError):  # it takes integers
        return check(value, of_arrays(value), "int32")


def test_families_broadcast_as_they_say():
    """All refuse what does not broadcast; of each package one for each number of arrays is traced to its end."""
    found = dict(broadcasting())
    assert len(found) > 250
    assert [n for n, f in found.items() if of_arrays(f) > 1 and not in_its_dtype(refuses, f)] == []
    some = {(n.rpartition(".")[0].rpartition(".")[0], of_arrays(f)): (n, f) for n, f in found.items()}
    assert [n for n, f in some.values() if not in_its_dtype(joins, f)] == []


def test_functions_that_do_not_broadcast_are_seen():
    assert not joins(jnp.sum, 1, "float32")
    assert not refuses(jnp.outer, 2, "float32")


# --- calls that raise what is said for a file's functions -------------------------------------------------------

CALLS = {
    "functad.api": {
        "ArgumentError": "functad.eval_shape(3)",
        "DTypeError": "functad.grad(jnp.sin)('a')",
        "TreeError": "functad.vjp(jnp.sin, 1.0)[1]((1.0, 2.0))",
    },
    "functad.api.devices": {
        "DeviceError": "functad.device_count('tpu')",
    },
    "functad.api.meshes": {
        "DeviceError": "functad.make_mesh((2,), ('i',))",
    },
    "functad.api_util": {
        "DTypeError": "functad.api_util.shaped_abstractify('a')",
    },
    "functad.config": {
        "ArgumentError": "functad.transfer_guard('no').__enter__()",
    },
    "functad.core": {
        "DTypeError": "functad.core.get_aval('a')",
    },
    "functad.custom_batching": {
        "ArgumentError": "functad.custom_batching.sequential_vmap(3)",
    },
    "functad.debug": {
        "ArgumentError": "functad.debug.step(3)",
    },
    "functad.experimental": {
        "ArgumentError": "checkify.debug_check(True, '{}')",
        "DTypeError": "checkify.debug_check(2.0, '')",
    },
    "functad.flatten_util": {
        "DTypeError": "functad.flatten_util.ravel_pytree('a')",
        "ShapeError": "functad.flatten_util.ravel_pytree(x)[1](m)",
    },
    "functad.dtypes": {
        "DTypeError": "functad.dtypes.finfo(int)",
    },
    "functad.extend": {
        "ArgumentError": "functad.extend.core.jaxpr_as_fun(functad.make_jaxpr(jnp.sin)(1.0))()",
        "DTypeError": "functad.extend.core.primal_dtype_to_tangent_dtype('no')",
    },
    "functad.interpreters": {
        "ArgumentError": "functad.interpreters.ad.defjvp(3, jnp.sin)",
        "ShapeError": "functad.interpreters.batching.bdim_at_front(x, 5, 3)",
    },
    "functad.ir": {
        "ProgramError": "functad.check_program(functad.make_jaxpr(jnp.sin)(1.0).replace(eqns=[]))",
    },
    "functad.image": {
        "ShapeError": "functad.image.resize(m, (2,), 'linear')",
        "ArgumentError": "functad.image.resize(m, (2, 2), 'no')",
        "AxisError": "functad.image.scale_and_translate(m, (2, 2), (5,), x[:1], x[:1], 'linear')",
    },
    "functad.lax": {
        "DTypeError": "lax.bessel_i0e('a')",
        "ShapeError": "lax.igamma(x, x[:2])",
        "ArgumentError": "lax.reduce_precision(x, -1, 3)",
    },
    "functad.lax.elementwise": {
        "DTypeError": "lax.conj('a')",
        "ShapeError": "lax.pow(x, x[:2])",
    },
    "functad.lax.fourier": {
        "DTypeError": "lax.fft(x + 1j, 'RFFT', (3,))",
        "ShapeError": "lax.fft(x, 'FFT', (3, 3))",
        "ArgumentError": "lax.fft(x, 'no', (3,))",
    },
    "functad.lax.linalg": {
        "DTypeError": "lax.linalg.qr('a')",
        "ShapeError": "lax.linalg.lu(x)",
        "ArgumentError": "lax.linalg.svd(m, subset_by_index=(0, 1))",
    },
    "functad.lax.parallel": {
        "UnboundAxisError": "lax.pmean(x, 'i')",
        "ArgumentError": "functad.vmap(lambda a: lax.psum(a, 'i', axis_index_groups=[[0]]), axis_name='i')(x)",
        "DTypeError": "functad.vmap(lambda a: lax.psum('a', 'i'), axis_name='i')(x)",
    },
    "functad.lax.patches": {
        "DTypeError": "lax.conv_general_dilated_patches('a', (1,), (1,), 'SAME')",
        "ShapeError": "lax.conv_general_dilated_local(kernels[0], kernels, (1,), 'SAME', (1,))",
        "ArgumentError": "lax.conv_general_permutations(('NCHW', 'OIHW', 'NO'))",
    },
    "functad.lax.products": {
        "DTypeError": "lax.dot('a', x)",
        "ShapeError": "lax.dot(m, m)",
        "ArgumentError": "lax.conv(jnp.ones((1, 1, 3)), jnp.ones((1, 1, 3)), (1,), 'no')",
    },
    "functad.lax.ragged": {
        "DTypeError": "lax.ragged_dot('a', jnp.ones((1, 3, 2)), jnp.array([2]))",
        "ShapeError": "lax.ragged_dot(m, jnp.ones((1, 2, 2)), jnp.array([2]))",
        "ArgumentError": "lax.ragged_dot(m, jnp.ones((1, 3, 2)), jnp.array([2]), group_offset=x)",
    },
    "functad.lax.reductions": {
        "DTypeError": "lax.reduce_sum('a', (0,))",
        "ShapeError": "lax.cumsum(x, 1)",
        "ArgumentError": "lax.reduce_window(x, 0.0, lax.add, (2,), (1,), 'no')",
    },
    "functad.lax.shapes": {
        "DTypeError": "lax.reshape('a', (1,))",
        "ShapeError": "lax.reshape(x, (2,))",
    },
    "functad.lax.slicing": {
        "DTypeError": "lax.slice('a', (0,), (1,))",
        "ShapeError": "lax.slice(x, (0,), (9,))",
        "ArgumentError": "lax.gather(x, x, None, (1,))",
    },
    "functad.lax.sorting": {
        "DTypeError": "lax.sort('a')",
        "ShapeError": "lax.sort_key_val(x, x[:2])",
        "ArgumentError": "lax.top_k(x, 9)",
    },
    "functad.lax.staging": {
        "DTypeError": "lax.stage('a')",
        "ArgumentError": "lax.platform_dependent(1.0, cuda=jnp.sin)",
    },
    "functad.nn": {
        "DTypeError": "nn.accuracy(m, x[:2])",
        "ShapeError": "nn.l2_loss(x, x[:2])",
    },
    "functad.nn.activations": {
        "DTypeError": "nn.Relu().apply({}, 'a')",
        "AxisError": "nn.Softmax(3).apply({}, x)",
    },
    "functad.nn.functions": {
        "DTypeError": "nn.gelu('a')",
        "AxisError": "nn.softmax(x, axis=3)",
        "ShapeError": "nn.elu(x, x[:2])",
    },
    "functad.numpy": {
        "DTypeError": "jnp.astype('a', int)",
        "ShapeError": "jnp.broadcast_shapes((2,), (3,))",
        "AxisError": "jnp.sort(x, axis=3)",
        "ArgumentError": "jnp.pad(x, 1, mode='no')",
    },
    "functad.numpy.arithmetic": {
        "ShapeError": "jnp.maximum(x, x[:2])",
        "DTypeError": "jnp.ldexp(x, x)",
        "ArgumentError": "jnp.gcd(x, x)",
    },
    "functad.numpy.bessel": {
        "DTypeError": "jnp.i0(x + 1j)",
    },
    "functad.numpy.bits": {
        "DTypeError": "jnp.packbits(x)",
        "ArgumentError": "jnp.packbits(jnp.arange(3), bitorder='no')",
    },
    "functad.numpy.building": {
        "ShapeError": "jnp.subtract(x, x[:2])",
        "DTypeError": "jnp.sin('a')",
    },
    "functad.numpy.complex_parts": {
        "DTypeError": "jnp.angle('a')",
    },
    "functad.numpy.concatenation": {
        "ShapeError": "jnp.stack([x, x[:2]])",
        "AxisError": "jnp.concatenate([x, x], axis=3)",
        "ArgumentError": "jnp.concatenate([])",
    },
    "functad.numpy.creation": {
        "ArgumentError": "jnp.zeros(-1)",
        "ShapeError": "jnp.full((2,), x)",
        "TooLargeError": "jnp.ones(10**20)",
    },
    "functad.numpy.dtype_names": {
        "DTypeError": "jnp.can_cast('no', int)",
    },
    "functad.numpy.fft": {
        "AxisError": "jnp.fft.fft(x, axis=3)",
        "ArgumentError": "jnp.fft.fft(x, norm='no')",
        "DTypeError": "jnp.fft.rfft(x + 1j)",
    },
    "functad.numpy.grids": {
        "ArgumentError": "jnp.indices((-1,))",
        "TooLargeError": "jnp.indices((10**20,))",
    },
    "functad.numpy.linalg": {
        "ShapeError": "jnp.linalg.inv(m)",
        "ArgumentError": "jnp.linalg.qr(m, mode='no')",
    },
    "functad.numpy.linalg.products": {
        "ShapeError": "jnp.linalg.outer(m, x)",
        "AxisError": "jnp.linalg.cross(m, m, axis=5)",
        "ArgumentError": "jnp.linalg.matrix_transpose(x)",
    },
    "functad.numpy.linear": {
        "ShapeError": "jnp.dot(m, m)",
        "AxisError": "jnp.trace(m, axis1=5)",
        "ArgumentError": "jnp.diag(jnp.ones((1, 1, 1)))",
    },
    "functad.numpy.logic": {
        "ShapeError": "jnp.logical_and(x, x[:2])",
        "DTypeError": "jnp.invert(x)",
    },
    "functad.numpy.manipulation": {
        "ShapeError": "jnp.reshape(x, 2)",
        "AxisError": "jnp.flip(x, 3)",
        "ArgumentError": "jnp.squeeze(x, 0)",
        "TooLargeError": "jnp.tile(x, 10**20)",
    },
    "functad.numpy.means": {
        "AxisError": "jnp.mean(x, axis=3)",
        "ArgumentError": "jnp.average(x, weights=m)",
        "ShapeError": "jnp.mean(x, where=x[:2] > 0)",
        "UnsupportedNumpyError": "jnp.mean(x, out=x)",
    },
    "functad.numpy.nan_reductions": {
        "AxisError": "jnp.nansum(x, axis=3)",
        "ArgumentError": "jnp.nanmin(x[:0])",
        "ShapeError": "jnp.nansum(x, where=x[:2] > 0)",
        "UnsupportedNumpyError": "jnp.nanmean(x, out=x)",
    },
    "functad.numpy.numeric": {
        "ShapeError": "jnp.convolve(m, x)",
        "AxisError": "jnp.diff(x, axis=3)",
        "ArgumentError": "jnp.convolve(x, x, 'no')",
    },
    "functad.numpy.polynomials": {
        "ShapeError": "jnp.roots(m)",
        "ArgumentError": "jnp.polyder(x, -1)",
    },
    "functad.numpy.positions": {
        "ShapeError": "jnp.insert(x, 1, m)",
        "AxisError": "jnp.compress(x > 0, x, 3)",
        "ArgumentError": "jnp.ravel_multi_index((1,), (3, 4))",
        "ConcretizationError": "functad.jit(lambda i: jnp.delete(x, i))(2)",
    },
    "functad.numpy.reductions": {
        "AxisError": "jnp.sum(x, axis=3)",
        "ArgumentError": "jnp.max(x[:0])",
        "ShapeError": "jnp.sum(x, where=x[:2] > 0)",
        "UnsupportedNumpyError": "jnp.sum(x, out=x)",
    },
    "functad.numpy.rounding": {
        "DTypeError": "jnp.floor('a')",
        "ArgumentError": "jnp.round(jnp.arange(3), -1)",
    },
    "functad.numpy.running": {
        "AxisError": "jnp.cumsum(x, axis=3)",
        "ArgumentError": "jnp.cumulative_sum(m)",
        "UnsupportedNumpyError": "jnp.cumsum(x, out=x)",
    },
    "functad.numpy.selecting": {
        "ShapeError": "jnp.where(x > 0, x, x[:2])",
        "AxisError": "jnp.take(x, 0, axis=3)",
        "ArgumentError": "jnp.take(x, 0, mode='no')",
        "OutOfBoundsError": "jnp.take_along_axis(x[:0], jnp.array([0]), 0)",
        "ConcretizationError": "functad.jit(jnp.nonzero)(x)",
    },
    "functad.numpy.sets": {
        "ConcretizationError": "functad.jit(jnp.union1d)(x, x)",
    },
    "functad.numpy.sorting": {
        "AxisError": "jnp.sort(x, axis=3)",
        "ShapeError": "jnp.lexsort((x, x[:2]))",
        "ArgumentError": "jnp.searchsorted(x, x, side='no')",
        "ConcretizationError": "functad.jit(jnp.unique)(x)",
    },
    "functad.numpy.special_matrices": {
        "ArgumentError": "jnp.tril(x)",
        "TooLargeError": "jnp.eye(10**20)",
    },
    "functad.numpy.statistics": {
        "AxisError": "jnp.median(x, axis=3)",
        "ShapeError": "jnp.cov(jnp.ones((1, 1, 1)))",
        "DTypeError": "jnp.bincount(x)",
        "ArgumentError": "jnp.quantile(x, 0.5, method='no')",
    },
    "functad.numpy.ufuncs": {
        "ShapeError": "jnp.hypot(x, x[:2])",
        "DTypeError": "jnp.hypot(x, x + 1j)",
    },
    "functad.ops": {
        "ShapeError": "functad.ops.segment_sum(x, jnp.arange(2))",
        "DTypeError": "functad.ops.segment_max(x, x)",
        "ArgumentError": "functad.ops.segment_min(x, jnp.arange(3), -1)",
    },
    "functad.optim": {
        "ArgumentError": "optim.scale('a')",
        "TreeError": "(o := optim.trace(0.9)).update([x], o.init((x, x)), None)",
        "ShapeError": "(o := optim.trace(0.9)).update(x[:2], o.init(x), None)",
    },
    "functad.primitives": {
        "ShapeError": "lax.linalg.geqrf(x)",
    },
    "functad.pytrees": {
        "TreeError": "functad.tree_util.tree_flatten_with_path({1: 0, 'a': 0})",
        "ArgumentError": "functad.tree_util.register_pytree_node_class(int)",
    },
    "functad.random": {
        "ShapeError": "functad.random.beta(key, 1.0, x, (2,))",
        "DTypeError": "functad.random.normal(key, dtype=int)",
        "ArgumentError": "functad.random.normal(key, -1)",
        "TooLargeError": "functad.random.normal(key, 10**20)",
    },
    "functad.scipy": {
        "DTypeError": "functad.scipy.integrate.trapezoid('a')",
        "ShapeError": "functad.scipy.optimize.minimize(jnp.sum, m, method='BFGS')",
        "ArgumentError": "functad.scipy.optimize.minimize(jnp.sum, x, method='no')",
    },
    "functad.scipy.fft": {
        "ArgumentError": "functad.scipy.fft.dct(x, type=1)",
        "DTypeError": "functad.scipy.fft.dct('a')",
        "AxisError": "functad.scipy.fft.dct(x, axis=3)",
    },
    "functad.scipy.linalg": {
        "ShapeError": "functad.scipy.linalg.expm(m)",
        "ArgumentError": "functad.scipy.linalg.pascal(2, 'no')",
        "DTypeError": "functad.scipy.linalg.det('a')",
    },
    "functad.scipy.signal": {
        "ShapeError": "functad.scipy.signal.convolve(x, m)",
        "ArgumentError": "functad.scipy.signal.convolve(x, x, 'no')",
        "DTypeError": "functad.scipy.signal.convolve('a', x)",
    },
    "functad.scipy.special": {
        "ShapeError": "functad.scipy.special.beta(x, x[:2])",
        "DTypeError": "functad.scipy.special.j0(x + 1j)",
        "ArgumentError": "functad.scipy.special.jv(0.5, x)",
    },
    "functad.scipy.stats": {
        "ShapeError": "functad.scipy.stats.norm.pdf(x, x[:2])",
        "DTypeError": "functad.scipy.stats.norm.logpdf('a')",
    },
    "functad.scipy.stats.dirichlet": {
        "ShapeError": "functad.scipy.stats.dirichlet.pdf(x, m)",
    },
    "functad.scipy.stats.multinomial": {
        "DTypeError": "functad.scipy.stats.multinomial.pmf(x, 3, x)",
    },
    "functad.scipy.stats.multivariate_normal": {
        "ShapeError": "functad.scipy.stats.multivariate_normal.pdf(x, x, m)",
        "ArgumentError": "functad.scipy.stats.multivariate_normal.logpdf(x, x, 1.0, True)",
    },
    "functad.scipy.stats.ranks": {
        "ArgumentError": "functad.scipy.stats.rankdata(x, 'no')",
    },
    "functad.test_util": {
        "AssertionError": "functad.test_util.check_vjp(jnp.sin, functools.partial(functad.vjp, jnp.cos), (1.0,))",
    },
    "functad.train": {
        "ArgumentError": "functad.train.text_cnn(-1)",
        "DTypeError": "functad.train.evaluator(lambda *_: 'a', 2)(1.0, None, (x, x))",
    },
    "functad.tree_util": {
        "TreeError": "functad.tree.map(jnp.add, [x], (x,))",
        "ArgumentError": "functad.tree.reduce(jnp.add, [])",
    },
}
KNOWN = {
    "x": jnp.ones(3),
    "m": jnp.ones((2, 3)),
    "kernels": jnp.ones((1, 1, 1, 1)),
    "key": functad.random.key(0),
    **{
        "functad": functad,
        "jnp": jnp,
        "lax": lax,
        "nn": nn,
        "optim": optim,
        "checkify": checkify,
        "functools": functools,
    },
}


def of_files():
    """The statements that hold for functions with no words of their own, and the errors that they name."""
    found = {}
    for value in FUNCTIONS.values():
        section = shared.of(value).get("Raises")
        module = next((name for name, said in shared.statements(value) if said.get("Raises") == section), None)
        if section and module:
            found[module] = set(re.findall(r"\b\w+Error\b", section))
    return {module: errors for module, errors in found.items() if errors}


def test_each_error_of_a_file_has_a_call():
    assert {module: set(calls) for module, calls in CALLS.items()} == of_files()


@pytest.mark.parametrize("module", CALLS)
def test_calls_raise_what_their_file_says(module):
    importlib.import_module(module)
    for error, call in CALLS[module].items():
        with pytest.raises(getattr(errors, error, None) or getattr(builtins, error)) as raised:
            eval(call, dict(KNOWN))
        assert type(raised.value).__name__ == error, call
