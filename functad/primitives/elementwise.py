"""The element-wise operations that most programs use under one name, gathered from the files of their families.

Knows nothing itself.
"""

from __future__ import annotations

from functad.primitives.arithmetic import *  # noqa: F403
from functad.primitives.bits import *  # noqa: F403
from functad.primitives.log_sums import *  # noqa: F403
from functad.primitives.logic import *  # noqa: F403
from functad.primitives.ordering import *  # noqa: F403
from functad.primitives.precision import *  # noqa: F403
from functad.primitives.special_functions import *  # noqa: F403
from functad.primitives.transcendental import *  # noqa: F403
