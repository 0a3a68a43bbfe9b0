"""Mistakes that beginners make, and what errors must say of them.

Each is a title, a program, whose line marked `# here` is at fault, and words of the message: what is wrong, then what
helps.
"""

from __future__ import annotations

from mistakes_with_arrays import WITH_ARRAYS
from mistakes_with_transforms import WITH_TRANSFORMS
from mistakes_with_values import WITH_VALUES

PREAMBLE = """\
import math
import numpy as np
import functad
import functad.numpy as jnp
from functad import data, lax, nn, optim, random
"""

MISTAKES = [*WITH_VALUES, *WITH_TRANSFORMS, *WITH_ARRAYS]
