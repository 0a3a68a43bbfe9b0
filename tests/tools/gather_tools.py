"""Gathers at random: operands, indices and dimension numbers."""


def random_gather(rng, batching):
    """An operand, indices, and the dimension numbers of a gather, under the names that `gather` has."""
    rank = int(rng.integers(1, 5))
    shape = rng.integers(1, 5, rank).tolist()
    dims = rng.permutation(rank).tolist()
    batched = int(rng.integers(0, min(2, rank) + 1)) if batching else 0
    operand_batching, rest = sorted(dims[:batched]), dims[batched:]
    index_map = rest[: int(rng.integers(0, len(rest) + 1))]
    collapsed = sorted(d for d in rest if rng.random() < 0.4)
    sizes = [
        1 if d in operand_batching + collapsed else int(rng.integers(rng.integers(0, 2), shape[d] + 1))
        for d in range(rank)
    ]
    batch = rng.integers(1, 4, int(rng.integers(batched, batched + 3))).tolist()
    indices_batching = rng.permutation(len(batch))[:batched].tolist()
    for dim, axis in zip(operand_batching, indices_batching, strict=True):
        batch[axis] = shape[dim]
    kept = rank - batched - len(collapsed)
    operand = rng.normal(size=shape).round(2)
    indices = rng.integers(-2, 6, (*batch, len(index_map))).astype(rng.choice(["i1", "i4", "i8"]))
    return (
        operand,
        indices,
        {
            "offset_dims": sorted(rng.permutation(len(batch) + kept)[:kept].tolist()),
            "collapsed_slice_dims": collapsed,
            "start_index_map": index_map,
            "operand_batching_dims": operand_batching,
            "start_indices_batching_dims": indices_batching,
            "slice_sizes": sizes,
        },
    )
