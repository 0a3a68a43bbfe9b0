"""The compiled part of the runtime: matrix products, by the BLAS library or own kernels, whole or part by part.

Written in the language of `compile.integer_compiler`, and compiled together with `runtime.compiled`. It must not know
who multiplies: a handle (`products.blas`) says that. All parameters are 64-bit words: integers or addresses.
"""

# ruff: noqa: F821
# mypy: ignore-errors
from __future__ import annotations

from functad import machine_model
from functad.backends.cpu.runtime import layout as w

EXPORTS = ("gemm", "run_gemm")


def run_gemm(slots, params, start, stop) -> None:
    """The matrix product that `params` describes, for rows or columns of C or matrices of a batch start..stop."""
    handle = params[w.P_HANDLE]
    item = handle[w.GEMM_ITEM]
    alpha = params + 8 * w.P_ALPHA
    beta = params + 8 * w.P_BETA
    a = slots[params[w.P_A_SLOT]] + params[w.P_A_OFFSET]
    b = slots[params[w.P_B_SLOT]] + params[w.P_B_OFFSET]
    c = slots[params[w.P_C_SLOT]] + params[w.P_C_OFFSET]
    ta = params[w.P_TA]
    tb = params[w.P_TB]
    m = params[w.P_M]
    n = params[w.P_N]
    k = params[w.P_K]
    lda = params[w.P_LDA]
    ldb = params[w.P_LDB]
    ldc = params[w.P_LDC]
    products = 1
    split = params[w.P_SPLIT]
    if split == w.SPLIT_ROWS:
        a += item * start * (1 if ta == 1 else lda)
        c += item * start * ldc
        m = stop - start
    elif split == w.SPLIT_COLUMNS:
        b += item * start * (ldb if tb == 1 else 1)
        c += item * start
        n = stop - start
    else:
        a += start * params[w.P_A_STRIDE]
        b += start * params[w.P_B_STRIDE]
        c += start * params[w.P_C_STRIDE]
        products = stop - start
    for _ in range(products):
        if m * n * k > machine_model.LARGEST_PRODUCT and params[w.P_CANCELLATION] >= 0:
            large_gemm(
                slots[params[w.P_CANCELLATION]], handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
            )  # fmt: skip
        else:
            call_gemm(handle[w.GEMM_ENTRY], handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
        a += params[w.P_A_STRIDE]
        b += params[w.P_B_STRIDE]
        c += params[w.P_C_STRIDE]


def large_gemm(
    token, handle, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """A large product, with looks at the clock in between."""
    most = machine_model.LARGEST_PRODUCT
    n_step = max(machine_model.PART_COLUMNS, most // (m * k) // 64 * 64)
    m_step = max(machine_model.PART_EXTENT, most // (min(n, n_step) * k) // 64 * 64)
    k_step = max(machine_model.PART_EXTENT, most // (min(n, n_step) * min(m, m_step)) // 64 * 64)
    gemm_in_parts(token, m_step, n_step, k_step, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


def gemm(
    handle, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, row-major, by the BLAS library.

    All addresses; alpha and beta point to elements. Rows of A and B may overlap (lda smaller than the row).
    """
    if m <= 0 or n <= 0:
        return
    item = handle[w.GEMM_ITEM]
    a_rows = k if ta == 1 else m
    a_columns = m if ta == 1 else k
    b_rows = n if tb == 1 else k
    b_columns = k if tb == 1 else n
    # The library refuses rows that overlap. Cut into parts no wider than the distance of rows, they do not.
    m_step = m
    n_step = n
    k_step = max(k, 1)
    if a_rows <= 1:
        lda = max(a_columns, 1)
    elif lda < a_columns:
        if ta == 1:
            m_step = lda
        else:
            k_step = lda
    if b_rows <= 1:
        ldb = max(b_columns, 1)
    elif ldb < b_columns:
        if tb == 1:
            k_step = min(k_step, ldb)
        else:
            n_step = ldb
    if m == 1:
        ldc = n
    direct = handle[w.GEMM_DIRECT]
    few = k if ta == 1 else m
    stays = 1 if ta == 0 and k * n * item <= machine_model.REPEATED_BYTES else 0
    if m * n * k > direct and direct > 0 and tb == 0 and (few <= machine_model.DIRECT_FEW or stays == 1):
        if m_step == m and n_step == n and k_step == k:
            # Tiles that the library multiplies without packing.
            m_step = min(m, machine_model.DIRECT_TILE // 2 if ta == 1 else machine_model.DIRECT_TILE)
            k_step = min(k, machine_model.DIRECT_TILE)
            n_step = machine_model.DIRECT_TILE
            while n_step > machine_model.FLOATS_OF_VECTOR and m_step * n_step * k_step > direct:
                n_step -= machine_model.FLOATS_OF_VECTOR
    gemm_in_parts(0, m_step, n_step, k_step, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)


def gemm_in_parts(
    token, m_step, n_step, k_step,
    handle, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    """C[m, n] = alpha op(A)[m, k] op(B)[k, n] + beta C, in parts of so many rows, columns and terms.

    token: the call's cancellation token, looked at before each part, which the product's own function computes; or 0:
        the BLAS library multiplies the parts. A part of C is finished while it is in the cache.
    """
    item = handle[w.GEMM_ITEM]
    n_start = 0
    while n_start < n:
        n_part = min(n_step, n - n_start)
        m_start = 0
        while m_start < m:
            m_part = min(m_step, m - m_start)
            c_part = c + item * (m_start * ldc + n_start)
            factor = beta
            k_start = 0
            while k_start == 0 or k_start < k:
                k_part = min(k_step, k - k_start)
                a_part = a + item * (k_start * lda + m_start if ta == 1 else m_start * lda + k_start)
                b_part = b + item * (n_start * ldb + k_start if tb == 1 else k_start * ldb + n_start)
                if token == 0:
                    call_cblas(
                        handle, ta, tb, m_part, n_part, k_part,
                        alpha, a_part, lda, b_part, ldb, factor, c_part, ldc,
                    )  # fmt: skip
                elif poll(token) == 0:
                    call_gemm(
                        handle[w.GEMM_ENTRY], handle, ta, tb, m_part, n_part, k_part,
                        alpha, a_part, lda, b_part, ldb, factor, c_part, ldc,
                    )  # fmt: skip
                factor = handle + 8 * w.GEMM_ONE
                k_start += k_step
            m_start += m_step
        n_start += n_step


def call_cblas(
    handle, ta, tb, m, n, k,
    alpha, a, lda, b, ldb, beta, c, ldc,
) -> None:  # fmt: skip
    kind = handle[w.GEMM_KIND]
    function = handle[w.GEMM_CBLAS]
    if kind == 0:
        cblas_float(function, 101, 111 + ta, 111 + tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    elif kind == 1:
        cblas_double(function, 101, 111 + ta, 111 + tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    else:
        cblas_complex(function, 101, 111 + ta, 111 + tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
