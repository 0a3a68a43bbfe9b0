"""How arrays look: words, pictures, text, and that large ones cost little."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from base64 import b64decode

import numpy as np
import pytest
from bfloat16_tools import needs_bfloat16

import functad
import functad.numpy as jnp
from functad.views.arrays import picture, sketch, summary_of


def pixels_of(html, which=0):
    """The numbers of the colours in a picture, and the palette."""
    data = b64decode(html.split("base64,")[which + 1].split('"')[0])
    parts, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        parts[data[at + 4 : at + 8]] = data[at + 8 : at + 8 + length]
        (crc,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert crc == zlib.crc32(data[at + 4 : at + 8 + length])
        at += 12 + length
    columns, rows = struct.unpack(">II", parts[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    return once(once(lines[:, 1:]).T).T, np.frombuffer(parts[b"PLTE"], np.uint8).reshape(-1, 3)


def once(levels):
    """Rows that are repeated equally often, once each."""
    times = (n for n in range(len(levels), 0, -1) if len(levels) % n == 0)
    return next(part for n in times if np.array_equal((part := levels[::n]).repeat(n, axis=0), levels))


def test_words():
    x = np.array([[1, np.nan, -2], [np.inf, np.nan, 3]], np.float32)
    assert str(summary_of(x)) == "f32[2,3] · -2 to 3 · 2 NaN, the first at [0, 1] · 1 infinite"
    assert str(summary_of(jnp.ones((2, 2), bool))) == "bool[2,2] · all 1"
    assert str(summary_of(np.zeros((0, 3), np.int32))) == "i32[0,3]"
    assert str(summary_of(np.float32(2.5))) == "f32[] · 2.5"
    assert str(summary_of(np.full(3, np.nan))) == "f64[3] · 3 NaN, the first at [0]"
    assert str(summary_of(np.array([3 + 4j, 0]))) == "c128[2] · 0 to 5"


def test_no_warning_at_the_ends_of_dtypes():
    for dtype in (np.float16, np.float32, np.float64):
        x = np.full((20, 20), np.finfo(dtype).max, dtype)
        x[0] = -x[0]
        x[1], x[2] = np.nan, np.inf
        assert "1 NaN" not in picture(x, summary_of(x)) and sketch(x)
    x = np.array([[np.iinfo(np.int64).min, np.iinfo(np.int64).max]] * 20)
    assert "img" in picture(x, summary_of(x))


def test_a_large_array_is_looked_at_here_and_there():
    x = np.broadcast_to(np.float32(1), (30_000, 30_000))  # 3.6 GB, if it were copied
    tracemalloc.start()
    html = jnp.asarray(np.zeros((2000, 1000), np.float32))._repr_html_()
    assert "1 element in 2 looked at" in html and "1 in 21 shown" in html and len(html) < 8000
    assert "1 element in 859 looked at" in str(summary_of(x))
    assert "img" in picture(x, summary_of(x))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


def test_few_numbers_are_written_on_their_cells():
    html = jnp.array([[1.0, -2.0], [0.0, jnp.nan]])._repr_html_()
    assert html.count("<td") == 4 and "<img" not in html and ">-2</td>" in html and ">nan</td>" in html


def test_the_middle_of_the_scale_is_zero_where_there_are_both_signs():
    x = np.linspace(-1, 3, 400).reshape(20, 20)
    levels, palette = pixels_of(picture(x, summary_of(x)))
    zero = levels.ravel()[np.abs(x.ravel()).argmin()]
    assert abs(int(zero) - 127) <= 1 and palette[127].min() > 220  # nearly white
    assert levels.max() == 253 and levels.min() == 84  # -1 on a scale from -3 to 3
    assert "-3 " in picture(x, summary_of(x))


def test_a_picture_has_the_pixels_that_are_shown():
    html = picture(x := np.arange(400.0).reshape(20, 20), summary_of(x))
    data = b64decode(html.split("base64,")[1].split('"')[0])
    columns, rows = struct.unpack(">II", data[16:24])
    assert f'width="{columns}" height="{rows}"' in html and columns == rows == 200


def test_nan_has_a_colour_and_words_of_its_own():
    x = np.ones((20, 20), np.float32)
    x[3, 4], x[5, 6], x[7, 8] = np.nan, np.inf, -np.inf
    html = picture(x, summary_of(x))
    levels, palette = pixels_of(html)
    assert levels[3, 4] == 254 and (levels == 254).sum() == 1 and levels[5, 6] == 253 and levels[7, 8] == 0
    assert "1 NaN, the first at [3, 4]" in html and "</span> NaN" in html
    assert tuple(palette[254]) not in {tuple(colour) for colour in palette[:254]}


def test_more_than_two_axes_are_tiles():
    x = np.arange(2 * 16 * 20 * 3, dtype=np.float32).reshape(2, 16, 20, 3)  # pictures of three channels
    levels, _ = pixels_of(picture(x, summary_of(x)))
    assert (levels == 255).any() and levels.shape[0] % 17 == 16 and levels.shape[1] % 21 == 20
    assert levels[0, 0] == 0 and levels[0, 1] == round(253 * (np.moveaxis(x, -1, 0)[0, 0, 0, 1] / x.max()))
    many = np.zeros((50, 30, 30), np.float32)
    assert "1 in 8 shown" in picture(many, summary_of(many))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (1, 1), (300,), (5, 1, 1), (1, 1, 1, 1), (2, 3, 40, 40)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint32", "bool", "complex64", "float16"])
def test_every_shape_and_dtype_shows(shape, dtype):
    x = jnp.zeros(shape, dtype)
    html = x._repr_html_()
    assert html.count("<div") == html.count("</div>") and (x.ndim == 0) == html.startswith("<pre ")
    assert isinstance(sketch(x), list)


@needs_bfloat16
def test_bfloat16_shows():
    assert "bf16[20,20] · all 1" in jnp.ones((20, 20), "bfloat16")._repr_html_()


def test_keys_donated_arrays_and_tracers():
    key = functad.random.key(0)
    assert ">Array((), dtype=key" in key._repr_html_()
    x = jnp.ones(3)
    functad.jit(lambda x: x + 1, donate_argnums=0)(x)
    assert "donated" in x._repr_html_()
    shown = []
    functad.make_jaxpr(lambda x: shown.append(hasattr(x, "_repr_html_")) or x)(1.0)
    assert shown == [False]


def test_text_is_darker_where_numbers_are_greater():
    assert sketch(np.array([[0, 1], [2, 4]])) == ["▏ ░▕", "▏▒█▕"]
    assert sketch(np.array([0, np.nan, np.inf, 4])) == ["▏ !∞█▕"]
    assert sketch(np.float32(1)) == [] == sketch(np.zeros((0, 2)))
    assert len(sketch(np.zeros((100, 100)))) <= 6 and len(sketch(np.zeros((9, 9, 9)))[0]) == 11
