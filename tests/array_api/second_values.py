"""Where the standard permits two values, the suite checks the first; this plugin of pytest makes it check the second.

Infinities with `//`: the standard prefers floor(a / b), and its notes permit what Python does, a // b paired with
a % b. functad does the latter, as NumPy and JAX do. A result that is not the second value fails, the first one, too.

Knows the names of the suite's cases; nothing of functad.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_FUNCTIONS = ("floor_divide", "__floordiv__", "__ifloordiv__")
_NAN = math.nan  # "libraries may return NaN to match Python behavior"
_MINUS_ONE = -1.0  # "libraries may return -1.0 to match Python behavior"
SECOND_VALUES = {
    "x1_i is +infinity and isfinite(x2_i) and x2_i > 0": _NAN,
    "x1_i is +infinity and isfinite(x2_i) and x2_i < 0": _NAN,
    "x1_i is -infinity and isfinite(x2_i) and x2_i > 0": _NAN,
    "x1_i is -infinity and isfinite(x2_i) and x2_i < 0": _NAN,
    "isfinite(x1_i) and x1_i > 0 and x2_i is -infinity": _MINUS_ONE,
    "isfinite(x1_i) and x1_i < 0 and x2_i is +infinity": _MINUS_ONE,
}


def pytest_collection_modifyitems(items: Iterable[Any]) -> None:
    """Give each case of floor division that has a second value the check for that one."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        if params.get("func_name", params.get("iop_name")) in _FUNCTIONS:
            case = params["case"]
            if case.cond_expr in SECOND_VALUES:
                case.check_result = _check(SECOND_VALUES[case.cond_expr])


def _check(wanted: float) -> Any:
    return lambda x1, x2, result: math.isnan(result) if math.isnan(wanted) else result == wanted
