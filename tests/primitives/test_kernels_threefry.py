"""The Threefry kernel against the published known answers.

Knows kernels/threefry.py only.
"""

from __future__ import annotations

import numpy as np
import pytest

from functad import machine_model
from functad.primitives.kernels.threefry import encrypted_counters, threefry2x32

# (key, counter, result) from the known-answer tests of the authors' Random123 library, 20 rounds.
KNOWN = [
    ((0x00000000, 0x00000000), (0x00000000, 0x00000000), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_known_answers(key, counter, expected):
    got = threefry2x32(*(np.array(word, np.uint32) for word in (*key, *counter)))
    assert tuple(int(word) for word in got) == expected


def test_all_known_answers_at_once_with_a_key_an_element():
    words = np.array([[*key, *counter] for key, counter, _ in KNOWN], np.uint32).T
    got = threefry2x32(*words)
    np.testing.assert_array_equal(np.stack(got, axis=1), np.array([e for _, _, e in KNOWN], np.uint32))


def test_blocks_and_broadcasting_do_not_change_the_numbers():
    counter = np.arange(10_001, dtype=np.uint32)
    key1, key2 = np.uint32(7), np.uint32(9)
    whole = threefry2x32(key1, key2, counter, counter[::-1])
    spread = threefry2x32(np.full_like(counter, key1), np.full_like(counter, key2), counter, counter[::-1])
    for a, b in zip(whole, spread, strict=True):
        np.testing.assert_array_equal(a, b)
    single = threefry2x32(key1, key2, counter[4097], counter[::-1][4097])
    assert (whole[0][4097], whole[1][4097]) == (single[0], single[1])


def test_arguments_stay_as_they_were_and_shapes_are_kept():
    counter = np.zeros((2, 3), np.uint32)
    got = threefry2x32(np.uint32(1), np.uint32(2), counter, counter)
    assert [word.shape for word in got] == [(2, 3), (2, 3)]
    assert not counter.any()
    empty = threefry2x32(*[np.zeros((0, 2), np.uint32)] * 4)
    assert [(word.shape, word.dtype) for word in empty] == [((0, 2), np.uint32)] * 2


@pytest.mark.parametrize("keys", ["one", "an element"])
def test_few_counters_are_encrypted_as_many_are(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    edges = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    first, second = (np.concatenate([edges, rng.integers(0, 2**32, 120, np.uint32)]).reshape(5, 25) for _ in range(2))
    key1, key2 = (first[::-1], second[:, ::-1]) if keys == "an element" else (first[0, 4], second[0, 4])
    for part in (np.s_[:], np.s_[:, :1], np.s_[2, 3], np.s_[:, :0]):
        words = [x if x.ndim == 0 else x[part] for x in (key1, key2, first, second)]
        monkeypatch.setattr(machine_model, "THREEFRY_PACKED", 125)
        packed = threefry2x32(*words)
        monkeypatch.setattr(machine_model, "THREEFRY_PACKED", -1)
        for found, expected in zip(packed, threefry2x32(*words), strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("packed", [-1, 125])
@pytest.mark.parametrize("shape", [(), (0, 2), (5, 25)])
def test_counters_are_encrypted_with_the_halves_of_a_key(
    shape: tuple[int, ...], packed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_model, "THREEFRY_PACKED", packed)
    counters = np.arange(np.prod(shape, dtype=int), dtype=np.uint32).reshape(shape)
    expected = threefry2x32(np.uint32(0xFFFFFFFF), np.uint32(0x80000001), np.uint32(0), counters)
    for found, part in zip(encrypted_counters(0x80000001FFFFFFFF, shape), expected, strict=True):
        assert (found.dtype, found.shape) == (np.uint32, shape)
        np.testing.assert_array_equal(found, part)


def test_what_few_counters_give_is_nobodys_memory_to_change() -> None:
    for words in encrypted_counters(7, (3,)):
        assert not words.flags.writeable
