"""Where the intrinsics of kernel text are declared for Numba. Only the compiler of kernels looks here.

So nothing changes for functions that users compile with Numba themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numba.core import imputils, types
from numba.core.typing import templates

types_of_intrinsics = templates.Registry()
code_of_intrinsics = imputils.Registry("functad")

Decorator = Callable[..., Any]
declare: Decorator = types_of_intrinsics.register_global  # (value, type): what a global value of kernel text is
implement: Decorator = code_of_intrinsics.lower  # decorates (context, builder, signature, values) -> LLVM value


def declare_function(function: Callable[..., Any], signature_of: Callable[[tuple[types.Type, ...]], Any]) -> None:
    """Let kernel text call the function; `signature_of(types of the arguments)` is None where they do not fit."""

    class Template(templates.AbstractTemplate):
        key = function

        def generic(self, arguments: tuple[types.Type, ...], keywords: Mapping[str, types.Type]) -> Any:
            return None if keywords else signature_of(arguments)

    declare(function, types.Function(Template))
