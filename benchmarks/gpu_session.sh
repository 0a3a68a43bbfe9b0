#!/bin/sh
# Checks functad on a GPU, and measures it, in one command: sh benchmarks/gpu_session.sh [WHEELS] [RESULTS]
#
# Within FUNCTAD_SECONDS (480) in all: at most 40 % for what tells most, FUNCTAD_CHECKS (35) % for checks, and what is
# left for all other benchmarks. If there is a folder WHEELS, packages come from
# it and from nowhere else; if not, they are those of the Python that PYTHON names. What is missing is named, and done
# without where that can be. RESULTS takes JSON and SVG files. With FUNCTAD_TINY=1 all of it runs in Numba's simulator,
# at tiny sizes.
set -u
cd "$(dirname "$0")/.."
wheels=${1:-wheels}
results=${2:-benchmarks/results/gpu}
tiny=${FUNCTAD_TINY:-}
python=${PYTHON:-python3}
seconds=${FUNCTAD_SECONDS:-480}
share=${FUNCTAD_CHECKS:-35}
start=$(date +%s)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
left() { echo $((seconds - $(date +%s) + start)); }
mkdir -p "$results"

has() { "$python" -c "import $1" >/dev/null 2>&1; }
if [ -n "$tiny" ]; then
    export NUMBA_ENABLE_CUDASIM=1
    small=--tiny
    packages="numpy llvmlite numba pytest"
else
    small=
    packages="numpy llvmlite numba pytest numba_cuda"
    if [ -d "$wheels" ]; then
        environment=$temporary/environment
        "$python" -m venv "$environment" || exit 1
        python=$environment/bin/python
        install() { "$python" -m pip install -q --no-index --find-links "$wheels" "$@" >/dev/null 2>>"$results/pip.txt"; }
        : >"$results/pip.txt"
        install "numba-cuda[cu13]" "numpy<2.5" || install "numba-cuda[cu12]" "numpy<2.5"
        for package in "cuda-toolkit[nvcc]" numpy llvmlite numba pytest torch "jax[cuda13]" "jax[cuda12]"; do
            install "$package"
        done
    fi
fi
missing=
for package in $packages; do
    has "$package" || missing="$missing $package"
done
[ -z "$missing" ] || echo "missing:$missing (python -m pip install 'functad[cuda,test]' brings them, or wheels in $wheels)"
for package in torch jax; do
    [ -n "$tiny" ] || has "$package" || echo "missing, so nothing is compared with it: $package"
done
export PYTHONPATH="$PWD:$PWD/tests:$PWD/tests/tools:$PWD/tests/backends/cuda${PYTHONPATH:+:$PYTHONPATH}"
FUNCTAD_CACHE_DIR=${FUNCTAD_CACHE_DIR:-$temporary/cache}
export FUNCTAD_CACHE_DIR
# JAX would take most of the GPU's memory for itself, and compile again in each process.
export XLA_PYTHON_CLIENT_PREALLOCATE=false JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0
export JAX_COMPILATION_CACHE_DIR="$FUNCTAD_CACHE_DIR/jax"
"$python" -c "import numba, functad" || { echo "functad cannot be imported: see above"; exit 1; }

timeout -k 5 60 "$python" -m functad doctor | tee "$results/doctor.txt"
timeout -k 5 60 "$python" -c 'import sys, functad
try: functad.devices("cuda")
except functad.errors.FunctadError as problem: sys.exit(f"nothing can be measured: {problem}")' || exit 1

benchmark() {
    [ "$(left)" -gt 5 ] || { echo "no time for benchmarks"; return; }
    timeout -k 5 "$(left)" "$python" -m benchmarks.gpu "$results" "$@" $small
}
echo "benchmarks that tell most, $(left) s left"
benchmark --first --seconds $((seconds * 2 / 5))
echo "correctness, $(left) s left"
checks=
[ -z "$tiny" ] || checks="products functions special_values dtypes long_rows"
# shellcheck disable=SC2086
timeout -k 5 $((seconds * share / 100 + 10)) "$python" tests/backends/cuda/cuda_in_parallel.py \
    --seconds $((seconds * share / 100)) $checks >"$results/checks.txt" 2>&1
grep -v "^ok " "$results/checks.txt" | cut -c1-400

echo "all other benchmarks, $(left) s left"
benchmark --rest --seconds $(($(left) * 4 / 5))
for threads in 32 64 128 256 512 1024; do
    [ "$(left)" -gt 15 ] || { echo "no time for $threads threads a block and more"; break; }
    [ -z "$tiny" ] || [ "$threads" = 32 ] || break
    benchmark --seconds 12 --threads "$threads"
done
"$python" -m benchmarks.gpu_table "$results" | tee "$results/tables.md"
echo "results in $results, after $(($(date +%s) - start)) s"
grep -q "checks passed" "$results/checks.txt" && ! grep -q "^FAIL" "$results/checks.txt"
