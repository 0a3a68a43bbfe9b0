"""`functad.scipy.special`: special functions, element-wise but for softmax and logsumexp.

Knows names only.

Shapes:
    Arguments are arrays or numbers that broadcast, and the result has their common shape.

Raises:
    ShapeError: arguments do not broadcast.
    DTypeError: an argument is no array, or of a dtype that the function does not take.
    ArgumentError: an argument that is no array has a value that is not taken.
"""

from typing import TYPE_CHECKING

from functad.absent import absent
from functad.nn.functions import logsumexp
from functad.scipy.special.bessel import bessel_jn, i0, i0e, i1, i1e
from functad.scipy.special.bessel_orders import j0, j1, jn, jv, y0, y1, yn
from functad.scipy.special.box_cox import boxcox, boxcox1p
from functad.scipy.special.entropies import (
    entr,
    expit,
    kl_div,
    log_softmax,
    logit,
    rel_entr,
    softmax,
    xlog1py,
    xlogy,
)
from functad.scipy.special.exponential_integrals import exp1, expi, expn, sici
from functad.scipy.special.faddeeva import dawsn, wofz
from functad.scipy.special.gammas import (
    bernoulli,
    beta,
    betainc,
    betaln,
    comb,
    digamma,
    factorial,
    gamma,
    gammainc,
    gammaincc,
    gammaln,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    polygamma,
    rgamma,
    zeta,
)
from functad.scipy.special.harmonics import sph_harm_y
from functad.scipy.special.hypergeometric import hyp1f1, hyp2f1
from functad.scipy.special.integrals import fresnel, owens_t, spence
from functad.scipy.special.modified_bessel import iv, ive
from functad.scipy.special.normals import erf, erfc, erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri

__all__ = [
    "bernoulli",
    "bessel_jn",
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "expn",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "hyp1f1",
    "hyp2f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "iv",
    "ive",
    "j0",
    "j1",
    "jn",
    "jv",
    "kl_div",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "poch",
    "polygamma",
    "rel_entr",
    "rgamma",
    "sici",
    "softmax",
    "spence",
    "sph_harm_y",
    "wofz",
    "xlog1py",
    "xlogy",
    "y0",
    "y1",
    "yn",
    "zeta",
]

if not TYPE_CHECKING:
    __getattr__ = absent(__name__)


def __dir__() -> list[str]:
    return __all__
