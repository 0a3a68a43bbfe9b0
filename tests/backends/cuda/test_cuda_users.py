"""Functions of users in CUDA kernels, as machine code: needs NVIDIA's compiler library (NVVM), but no GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuda_driver_tools import F32, compiler_with_nvvm, executable, fake_device, launches_of

import functad
from functad.errors import CompilationError
from functad.ir import Aval


def test_functions_of_users_are_compiled_without_a_device() -> None:
    """On views of arrays, which need no function from outside; what does need one is named."""
    compiler = compiler_with_nvvm()
    out = functad.ShapeDtypeStruct((3, 4), F32)

    @functad.numba_primitive(out=lambda x, n: [out, functad.ShapeDtypeStruct((2,), np.dtype(bool))])
    def doubled(x: Any, n: Any, y: Any, flags: Any) -> None:
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                y[j, i] = x[i, j] * n
        flags[0] = flags[1] = y.shape[0] == 3

    @functad.numba_primitive(out=lambda x: out)
    def turned(x: Any, y: Any) -> None:
        reshaped = x.reshape((3, 4))
        for i in range(3):
            y[i, 0] = reshaped[i, 0]

    avals = Aval((5, 4, 3), F32), Aval((5,), np.dtype(np.int32))
    mapped = executable(lambda x, n: list(functad.vmap(doubled)(x, n)), *avals)
    (launch,) = launches_of(mapped, fake_device())
    text = compiler.ptx(launch.kernel.function, launch.types, (9, 0))
    assert ".entry" in text and ".extern .func" not in text
    (launch,) = launches_of(executable(lambda x: [turned(x)], Aval((4, 3), F32)), fake_device())
    with pytest.raises(CompilationError, match=r"`call_turned` calls \w*reshape.*by their indices"):
        compiler.machine_code(launch, (9, 0))
