"""Blocks and the arena: what runs in chunks together never meets, and two live temporaries never share a byte."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from fuzz.forms import traced
from fuzz.session import some_program

import functad
import functad.numpy as jnp
from functad import machine_model
from functad.backends.cpu.lowering import CpuLowering
from functad.lowering import blocks
from functad.lowering.blocks import Block, Instruction, make_blocks
from functad.lowering.memory.arena import plan_memory
from functad.lowering.memory.buffers import new_buffer
from functad.optimize.pipeline import simplify

F32 = np.dtype(np.float32)


def random_lowered(seed: int) -> CpuLowering:
    f = some_program(f"plan/{seed}")
    return CpuLowering(simplify(traced(f, f.args)))


def instruction(n: int, *parameters: tuple[Any, str, int | None], cost: float = 1e6) -> Instruction:
    """An instruction over `0..n` that touches buffers: (buffer, mode, elements of it in one step)."""
    named = tuple((b.name, b, mode) for b, mode, _ in parameters)
    rows = {b.storage: row for b, _, row in parameters}
    return Instruction("f", named, n, rows, cost, 0.0, 0.0, None)  # type: ignore[arg-type]


def buffer(name: str, *shape: int) -> Any:
    return new_buffer(name, shape, F32)


# --- the arena -----------------------------------------------------------------------------------------------


def test_live_temporaries_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(120):
        monkeypatch.setattr(machine_model, "FEWEST_ROWS", 4 if seed % 2 else 1 << 30)
        lowered = random_lowered(seed)
        memory = lowered.memory_plan
        for a, b in itertools.combinations(memory.offsets, 2):
            (first_a, last_a), (first_b, last_b) = memory.lifetimes[a], memory.lifetimes[b]
            if first_a <= last_b and first_b <= last_a:
                start_a, start_b = memory.offsets[a], memory.offsets[b]
                apart = start_a + a.nbytes <= start_b or start_b + b.nbytes <= start_a
                one_place = start_a == start_b and a.nbytes == b.nbytes
                follows = first_b >= last_a and follows_by_rows(lowered.blocks[last_a], a, b)
                precedes = first_a >= last_b and follows_by_rows(lowered.blocks[last_b], b, a)
                assert apart or (one_place and (follows or precedes)), f"seed {seed}: {a} and {b}"


def follows_by_rows(block: Block, before: Any, after: Any) -> bool:
    """Whether a block needs one temporary before the other only, and each row of it has the same bytes of both."""
    steps = list(zip(block.instructions, block.scales))
    uses = {s: [n for n, (i, _) in enumerate(steps) if s in i.storages] for s in (before, after)}
    pieces = {(s, i.rows[s], scale) for s in uses for i, scale in steps if s in i.storages}
    if any(elements is None for _, elements, _ in pieces) or max(uses[before]) >= min(uses[after]):
        return False
    sizes = {b.storage: b.dtype.itemsize for i, _ in steps for _, b, _ in i.parameters}
    return {elements * scale * sizes[s] * block.rows for s, elements, scale in pieces} == {before.nbytes}


def by_rows(rows: int, *pairs: tuple[Any, Any]) -> Any:
    """The plan of instructions that each read one buffer and write another, row by row, in one block."""
    made = make_blocks([instruction(rows, (a, "r", a.size // rows), (b, "w", b.size // rows)) for a, b in pairs])
    assert len(made) == 1
    return plan_memory(made)


def test_rows_of_a_block_use_memory_again() -> None:
    buffers = [buffer(f"b{i}", 8, 40) for i in range(6)]
    memory = by_rows(8, *itertools.pairwise(buffers))
    assert memory.unshared_bytes == 6 * 1280 and memory.arena_bytes == memory.live_bytes == 2 * 1280
    offsets = [memory.offsets[b.storage] for b in buffers]
    assert offsets[::2] == [offsets[0]] * 3 and offsets[1::2] == [offsets[1]] * 3 and offsets[0] != offsets[1]


def test_rows_of_other_sizes_and_what_all_rows_read_keep_their_memory() -> None:
    a, b, c, d = buffer("a", 8, 40), buffer("b", 8, 40), buffer("c", 8, 20), buffer("d", 8, 20)
    assert by_rows(8, (a, b), (b, c)).arena_bytes == 2 * 1280 + 640  # c in the place of a: other rows would meet
    whole = [instruction(8, (a, "r", None), (b, "w", 40)), instruction(8, (b, "r", 40), (d, "w", 20))]
    late = buffer("late", 8, 40)
    (block,) = make_blocks([*whole, instruction(8, (d, "r", 20), (late, "w", 40))])
    memory = plan_memory([block])
    assert memory.offsets[late.storage] == memory.offsets[b.storage] != memory.offsets[a.storage]


def test_a_place_that_is_taken_over_lives_as_long_as_its_last_owner() -> None:
    a, b, c, d = (buffer(name, 8, 40) for name in "abcd")
    one = make_blocks([instruction(8, (a, "rw", 40)), instruction(8, (b, "w", 40))])
    other = make_blocks([instruction(1, (c, "w", None), (b, "r", None)), instruction(1, (d, "w", None))])
    memory = plan_memory([*one, *other])
    assert memory.offsets[a.storage] == memory.offsets[b.storage]
    assert memory.offsets[c.storage] != memory.offsets[b.storage]


def test_the_arena_is_aligned_and_no_larger_than_all_temporaries() -> None:
    for seed in range(120):
        memory = random_lowered(seed).memory_plan
        assert memory.live_bytes <= memory.arena_bytes <= memory.unshared_bytes
        for storage, offset in memory.offsets.items():
            assert offset % machine_model.CACHE_LINE == 0 and offset + storage.nbytes <= memory.arena_bytes


def test_every_temporary_has_a_place_and_is_written_before_it_is_read() -> None:
    for seed in range(60):
        lowered = random_lowered(seed)
        written: set[Any] = set()
        for block in lowered.blocks:
            for step in block.instructions:
                for _, b, mode in step.parameters:
                    if b.storage.kind == "arena":
                        assert b.storage in lowered.memory_plan.offsets
                        assert mode != "r" or b.storage in written, f"seed {seed}: {step.function} reads {b}"
                written.update(b.storage for _, b, mode in step.parameters if mode != "r")


def test_memory_is_used_again() -> None:
    buffers = [buffer(f"b{i}", 1000) for i in range(6)]
    steps = [instruction(1, (a, "r", None), (b, "w", None)) for a, b in itertools.pairwise(buffers)]
    memory = plan_memory(make_blocks(steps))
    assert memory.unshared_bytes == 6 * 4032 and memory.arena_bytes == memory.live_bytes == 2 * 4032


def test_a_small_temporary_keeps_no_large_one_from_the_place_of_another() -> None:
    first, small, second = buffer("first", 160), buffer("small", 16), buffer("second", 160)
    steps = [
        instruction(1, (first, "w", None)),
        instruction(1, (small, "w", None)),
        instruction(1, (second, "w", None), (small, "r", None)),
    ]
    memory = plan_memory([Block(1, [s], [1]) for s in steps])
    assert memory.arena_bytes == memory.live_bytes == 640 + 64
    assert memory.offsets[first.storage] == memory.offsets[second.storage]


def test_a_gap_is_given_to_a_storage_that_fits() -> None:
    small, large, keep, new = buffer("small", 16), buffer("large", 160), buffer("keep", 16), buffer("new", 16)
    steps = [
        instruction(1, (large, "w", None), (keep, "w", None), (small, "w", None)),
        instruction(1, (keep, "rw", None)),
        instruction(1, (new, "w", None), (keep, "r", None)),
    ]
    memory = plan_memory([Block(1, [s], [1]) for s in steps])
    assert memory.arena_bytes == 640 + 64 + 64 and memory.offsets[new.storage] in (0, memory.offsets[small.storage])


def test_a_plan_prints_its_size_and_each_place() -> None:
    a, b = buffer("tmp_a", 4), buffer("tmp_b", 20)
    memory = plan_memory(
        [Block(1, [instruction(1, (a, "w", None))], [1]), Block(1, [instruction(1, (b, "w", None))], [1])]
    )
    assert str(memory).splitlines() == [
        "arena: 128 bytes; alive at once at most 128; without sharing 192",
        "           0 ..         16  blocks 0..0  tmp_a",
        "           0 ..         80  blocks 1..1  tmp_b",
    ]


# --- blocks --------------------------------------------------------------------------------------------------


def test_what_works_on_the_same_rows_runs_together() -> None:
    a, b, c = buffer("a", 8, 4), buffer("b", 8, 4), buffer("c", 8)
    steps = [
        instruction(8, (a, "r", 4), (b, "w", 4)),
        instruction(32, (b, "rw", 1)),
        instruction(8, (b, "r", 4), (c, "w", 1)),
    ]
    (block,) = make_blocks(steps)
    assert (block.rows, block.scales) == (8, [1, 4, 1])


def test_finer_instructions_come_first_or_last() -> None:
    a = buffer("a", 8, 4)
    (block,) = make_blocks([instruction(32, (a, "w", 1)), instruction(8, (a, "rw", 4))])
    assert (block.rows, block.scales) == (8, [4, 1])


@pytest.mark.parametrize(
    ("rows_of_reader", "steps"),
    [(None, 8), (8, 8), (2, 8), (4, 6)],
    ids=["it reads all", "it reads other rows", "it reads half rows", "its range does not divide"],
)
def test_what_reads_other_rows_waits(rows_of_reader: int | None, steps: int) -> None:
    a, b = buffer("a", 8, 4), buffer("b", 8, 4)
    made = make_blocks([instruction(8, (a, "w", 4)), instruction(steps, (a, "r", rows_of_reader), (b, "w", 4))])
    assert len(made) == 2


def test_writing_over_what_others_have_read_waits_unless_the_rows_are_the_same() -> None:
    a, b = buffer("a", 8, 4), buffer("b", 8, 4)
    all_read = [instruction(8, (a, "r", None), (b, "w", 4)), instruction(8, (a, "w", 4))]
    rows_read = [instruction(8, (a, "r", 4), (b, "w", 4)), instruction(8, (a, "w", 4))]
    assert len(make_blocks(all_read)) == 2 and len(make_blocks(rows_read)) == 1


def test_all_may_read_what_nobody_writes() -> None:
    a, b, c = buffer("a", 8, 4), buffer("b", 8, 4), buffer("c", 8, 4)
    made = make_blocks([instruction(8, (a, "r", None), (b, "w", 4)), instruction(8, (a, "r", 4), (c, "w", 4))])
    assert len(made) == 1


def test_blocks_keep_the_order_of_instructions() -> None:
    for seed in range(40):
        lowered = random_lowered(seed)
        assert [i for b in lowered.blocks for i in b.instructions] == lowered.generated.instructions


def test_little_work_is_not_shared_among_threads() -> None:
    a = buffer("a", 64)
    (small,) = make_blocks([instruction(64, (a, "w", 1), cost=100.0)])
    (large,) = make_blocks([instruction(64, (a, "w", 1), cost=1e6)])
    assert not small.parallel and small.chunk == 64
    assert large.parallel and large.chunk < 64


def test_chunks_fit_into_a_cache_where_several_read_them() -> None:
    rows, columns = 256, machine_model.SECOND_CACHE // 16
    a, b, c = (buffer(name, rows, columns) for name in "abc")
    first = instruction(rows, (a, "r", columns), (b, "w", columns), cost=1e7)
    second = instruction(rows, (b, "r", columns), (c, "w", columns), cost=1e7)
    (together,) = make_blocks([first, second])
    (alone,) = make_blocks([first])
    assert together.chunk * columns * 4 <= machine_model.SECOND_CACHE < alone.chunk * columns * 4


def test_chunks_are_shared_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "available_cores", lambda: (2, "for this test"))
    monkeypatch.setattr(machine_model, "PRODUCT_CHUNK_EXTENT", 1)
    a = buffer("a", 28)
    for cost, chunk in ((4 * machine_model.COARSE_CHUNK, 7), (8 * machine_model.COARSE_CHUNK, 2)):
        coarse = instruction(28, (a, "w", 1), cost=cost)
        coarse.coarse = True
        (block,) = make_blocks([coarse])
        assert block.chunk == chunk  # in chunks of 4 one of two cores would do 16 of 28 rows


@pytest.mark.parametrize("cores", [2, 6])
def test_chunks_of_products_have_many_rows_or_are_one_for_each_core(
    monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    monkeypatch.setattr(blocks, "available_cores", lambda: (cores, "for this test"))
    extent, cost = machine_model.PRODUCT_CHUNK_EXTENT, 100 * machine_model.COARSE_CHUNK
    for rows, chunks in ((extent, 2 if cores == 2 else 4), (4 * extent, 4), (64 * extent, machine_model.MOST_PARTS)):
        product = instruction(rows, (buffer("a", rows), "w", 1), cost=cost)
        product.coarse = True
        follows = instruction(rows, (buffer("b", rows), "w", 1), cost=1000.0)
        for made in ([product], [product, follows]):
            (block,) = make_blocks(made)
            assert -(-rows // block.chunk) >= chunks and block.chunk >= min(extent // 2, rows // cores // 2)


def test_making_blocks_of_many_instructions_takes_linear_time() -> None:
    buffers = [buffer(f"b{i}", 8, 4) for i in range(3000)]
    steps = [instruction(8, (a, "r", 4), (b, "w", 4)) for a, b in itertools.pairwise(buffers)]
    (block,) = make_blocks(steps)
    assert len(block.instructions) == 2999 and len(block.touched) == 3000


# --- schedules -----------------------------------------------------------------------------------------------


def test_a_schedule_prints_what_its_steps_read_and_write() -> None:
    types = functad.ShapeDtypeStruct((8, 16), "float32"), functad.ShapeDtypeStruct((16, 4), "float32")
    program = simplify(functad.make_jaxpr(lambda x, w: jnp.sort(jnp.sin(x) @ w, 0))(*types))
    text = str(CpuLowering(program).schedule).splitlines()
    assert text[0] == "sin_c: nest (i<128) input_a -> tmp_c"
    assert text[1] == "product_d: [8,16]·[16,4] 1 tmp_c input_b -> tmp_d"
    assert "kernel" in text[2] and text[-1].startswith("results: out_")
