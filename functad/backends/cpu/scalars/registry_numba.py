"""Where the intrinsics of kernel text are declared for Numba. Only the compiler of kernels looks here.

So nothing changes for functions that users compile with Numba themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import imputils
from numba.core.typing import templates

types_of_intrinsics = templates.Registry()
code_of_intrinsics = imputils.Registry("functad")

Decorator = Callable[..., Any]
declare: Decorator = types_of_intrinsics.register_global  # (value, type): what a global value of kernel text is
template: Decorator = types_of_intrinsics.register  # decorates a template
implement: Decorator = code_of_intrinsics.lower  # decorates (context, builder, signature, values) -> LLVM value
