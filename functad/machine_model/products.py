"""Matrix products: which are done how, and by whom."""

from functad.machine_model import facts

PRODUCT_CHUNK = 4e5
"""operations of float32 in a chunk of a product, at least; some 5 µs. Compared."""

PRODUCT_CHUNK_EXTENT = 192
"""rows or columns of a chunk, at least, if a core has more than one: each packs all of the other operand. Compared."""

ROWS_PACK_BETTER = 4
"""times as many columns as rows from which threads share the columns: rows have the better kernels. Compared."""

COPIED_WEIGHT_ROWS = 64
"""rows of all products with a weight that they read transposed, for one copy of it before (AVX-512). Unproven."""

COPIED_WEIGHT_BYTES_A_ROW = 1280
"""bytes of such a weight that are worth a row more: a large one takes longer to copy, and gains less. Unproven."""

COPIED_WEIGHT_PRODUCT = 32**3
"""multiplications of such a product, at least. Unproven."""

PACKED_WEIGHT_ROWS = 8
"""rows of all products of a loop with a weight, for a copy of it before, in panels (AVX2). Compared, on Zen 3: a loop
of GRUs takes 0.35 to 0.95 of the time, from 10 rows on."""

PACKED_WEIGHT_BYTES = facts.SECOND_CACHE
"""bytes of such a weight that all rows of a product pass by before the next ones. Derived."""

PACKED_WEIGHT_PRODUCTS = 1 << 18
"""multiplications of all these products, at least. Chosen: fewer are not worth the 60 ms that compiling functad's own
product takes once."""

FALLBACK_TILE_BYTES = 2 * facts.FIRST_CACHE
"""bytes of a packed tile of the product that stands in for a BLAS library. Derived."""

FALLBACK_TILE_ROWS = 64
"""rows of that tile. Compared."""

OPENBLAS_DIRECT = 100**3
"""multiplications up to which OpenBLAS, with AVX-512, reads both matrices where they lie. Chosen, by its source."""

DIRECT_TILE = 128
"""rows of the tiles in which larger ones are given to it (half as many if transposed), columns, and terms. Unproven."""

DIRECT_FEW = 256
"""rows at most (terms if transposed) of the left operand of a product in such tiles. Unproven: more pay for packing."""

REPEATED_BYTES = facts.SECOND_CACHE // 4
"""bytes of a matrix that stays in a core's cache while all rows of another pass by. Derived."""

OWN_PRODUCT_EXTENT = 8
"""elements along each side, at least, of products that functad's own does faster than shorter vectors. Unproven."""

OWN_PRODUCT_BYTES = 8 * facts.SECOND_CACHE
"""bytes of a matrix from which functad's own product (AVX-512), packing while it multiplies, is faster. Derived."""

OWN_PRODUCT_MULTIPLICATIONS = 1 << 24
"""multiplications from which on that is so, too, of a product with OWN_PRODUCT_SIDE along each side. Compared, on
Emerald Rapids: 0.8 of the time in tiles at 128 x 512 x 512, 0.9 at 100 x 1,024 x 256; below 2^23 as much or more."""

OWN_PRODUCT_SIDE = 64
"""elements along each side of such a product. Compared: with 32 it takes 1.05 to 1.1 of the time."""

OWN_PRODUCT_FEW_ROWS = 16
"""rows of a product, at least, that is faster so because of its many terms (more than DIRECT_FEW) with the left operand
transposed, which the library packs: the gradient of a weight. Compared, on Emerald Rapids: 0.6 to 0.9 of the time."""

OWN_PRODUCT_ROWS = 4
"""rows of such a product, at least, so that it fills its vectors. Unproven."""

OWN_PRODUCT_COLUMNS = 128
"""columns of such a product, at least. Unproven."""

OWN_PRODUCT_DEPTH = 32
"""terms of such a product, at least. Unproven."""

OWN_DIRECT_TILE_ROWS = 6
"""rows of a tile of functad's own product of matrices where they lie: with OWN_DIRECT_TILE_BYTES 24 of the 32 registers
that AVX-512 has. Compared, on Emerald Rapids: with 8 x 3 and 12 x 2 vectors it takes 1.03 to 1.06 of the time."""

OWN_DIRECT_TILE_BYTES = 4 * facts.VECTOR_BYTES
"""bytes of a row of such a tile. Rows of a product have a multiple of that: where what is left over is OpenBLAS's, it
takes 0.95 to 1.08 of the time on Emerald Rapids. Derived."""

OWN_DIRECT_HEIGHT = 4
"""rows of a lower tile, at least: sums of fewer rows would wait for each other. Chosen, by the latency of a sum."""

OWN_DIRECT_LEAST_ROWS = 8
"""rows of a product in such tiles, at least: seven are no sum of such heights, but all from eight on are. Chosen."""

OWN_DIRECT_ROWS = 16
"""rows of such a product whose left operand is not transposed, at least. Compared, on Emerald Rapids: with 8 rows it
takes 0.95 to 1.1 of OpenBLAS's time; if it is transposed, 0.3 to 1.0."""

OWN_DIRECT_DEPTH = 128
"""terms of such a product, at least. Compared, on Emerald Rapids: with 64 it takes 1.0 to 1.1 of OpenBLAS's time."""

OWN_DIRECT_SLAB_BYTES = 2 * facts.SECOND_CACHE
"""bytes of the rows of an operand that are read at a time, and again for the next tiles. Of a larger right operand the
next ones are fetched meanwhile. Derived."""

OWN_DIRECT_COLUMNS = 256
"""columns of such a product, at most, that is faster than packed, however much there is to do. Compared, on Emerald
Rapids: 0.86 to 0.97 of the time, with 512 columns 0.96 to 1.13."""

THIN_TERMS = 64
"""terms of a product, at most, that functad's own does in tiles of 6 rows, with AVX2 and no longer vectors. Compared
with 32, Zen 3: 33 to 64 terms take 0.80 to 0.98 of OpenBLAS's time, added to 64 long rows up to 1.07."""

THIN_TURNED_TERMS = 16
"""the same where the left operand is transposed. Compared: 0.2 to 0.97, with 32 terms up to 1.1."""

THIN_ROWS = 64
"""rows of such a product, at least: for so many its right operand is packed. Compared: with 32 rows up to 1.1."""

THIN_RESULT_BYTES = facts.SECOND_CACHE // 2
"""bytes of its result, at least. Derived: a smaller one stays in the cache, saves some microseconds, and is not worth
the 50 ms that compiling the product takes once."""

THIN_TILE_BYTES = facts.VECTOR_BYTES
"""bytes of a row of such a tile: two vectors of AVX2, so that a tile takes 12 of 16 registers. Derived."""

THIN_PACKED_BYTES = facts.FIRST_CACHE
"""bytes of the right operand that are packed for it at a time, on the stack. Derived."""

THIN_STREAMED_BYTES = 24 * facts.SECOND_CACHE
"""bytes of what a thread writes of such a product in one go, from which that passes by the caches. Derived: more than a
third cache of 32 MiB holds of all threads'. On Zen 3 0.85 to 1.0 of the time from 36 MB on, 0.9 to 2 at 16 MB."""

TILE_ROWS = 12
"""rows of a tile of the result that stays in registers: with TILE_BYTES 24 of the 32 that AVX-512 has. Chosen."""

FEW_TILE_ROWS = 4
"""rows of the tiles in which fewer rows than that are done. Unproven."""

TILE_BYTES = 2 * facts.VECTOR_BYTES
"""bytes of a row of such a tile. Derived."""

PANEL_DEPTH = 256
"""terms of a sum that are packed at a time. Compared."""

PANEL_DEPTH_UNIT = 4
"""terms of which that is a multiple; zeros are added at the end. Chosen: what is transposed at once."""

RESIDENT_BYTES = facts.SECOND_CACHE // 2
"""bytes of the operand that stays in the second cache. Derived."""

PANEL_BYTES = facts.FIRST_CACHE
"""bytes of a panel of the other, which passes by. Derived."""

NEAR_BYTES = RESIDENT_BYTES // PANEL_DEPTH
"""bytes from one row to the next up to which a tile reads its rows where they lie, unpacked: with larger ones they
would not stay in the second cache. Derived."""

WINDOW_TILE_ROWS = 6
"""outputs of a tile of a product of windows: with two vectors of WINDOW_VECTOR_BYTES 12 of the 16 registers that AVX2
has. Chosen."""

WINDOW_VECTOR_BYTES = 32
"""bytes of a vector of AVX2. Chosen."""
