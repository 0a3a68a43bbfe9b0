"""The programs of GradBench's evals, a file each, from the mathematics of their descriptions."""

from benchmarks.gradbench.evals import ba, det, gmm, hello, ht, kmeans, llsq, lse, lstm, ode, particle, saddle
from benchmarks.gradbench.task import Function

# Eval → the name of a function → how it is prepared, computed and reported.
EVALS: dict[str, dict[str, Function]] = {
    "hello": hello.FUNCTIONS,
    "ba": ba.FUNCTIONS,
    "det": det.FUNCTIONS,
    "gmm": gmm.FUNCTIONS,
    "ht": ht.FUNCTIONS,
    "kmeans": kmeans.FUNCTIONS,
    "llsq": llsq.FUNCTIONS,
    "lse": lse.FUNCTIONS,
    "lstm": lstm.FUNCTIONS,
    "ode": ode.FUNCTIONS,
    "particle": particle.FUNCTIONS,
    "saddle": saddle.FUNCTIONS,
}
