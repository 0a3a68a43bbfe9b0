"""Sums and products as two numbers, the result rounded and what that rounds off (after Dekker, 1971).

A formula is written against the arithmetic `k` (`PlainArithmetic`), here a strict one.
"""

from __future__ import annotations

from typing import Any


def product_of(k: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """x y rounded, and what that rounds off."""
    product = x * y
    return product, k.product_error(x, y, product)


def sum_of(x: Any, y: Any) -> tuple[Any, Any]:
    """x + y rounded, and what that rounds off, for |x| ≥ |y|, or x a multiple of the last digit of y."""
    total = x + y
    return total, y - (total - x)
