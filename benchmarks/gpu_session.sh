#!/bin/sh
# Checks functad on a GPU, and measures it, within 8 minutes: sh benchmarks/gpu_session.sh [WHEELS] [RESULTS]
#
# WHEELS is a folder with the packages: no other source is asked. What is missing there is named, and done without where
# that can be. RESULTS takes JSON and SVG files. With FUNCTAD_TINY=1 all of it runs in Numba's simulator, at tiny sizes,
# in the Python that PYTHON names.
set -u
cd "$(dirname "$0")/.."
wheels=${1:-wheels}
results=${2:-benchmarks/results/gpu}
tiny=${FUNCTAD_TINY:-}
start=$(date +%s)
left() { echo $((480 - $(date +%s) + start)); }
mkdir -p "$results"

if [ -n "$tiny" ]; then
    python=${PYTHON:-python3}
    export NUMBA_ENABLE_CUDASIM=1
    small=--tiny
else
    small=
    environment=$(mktemp -d)/environment
    "${PYTHON:-python3}" -m venv "$environment" || exit 1
    python=$environment/bin/python
    install() { "$python" -m pip install -q --no-index --find-links "$wheels" "$@" >/dev/null 2>"$results/pip.txt"; }
    missing=
    for package in numpy llvmlite numba pytest; do
        install "$package" || missing="$missing $package"
    done
    install "numba-cuda[cu12]" || install "numba-cuda[cu13]" || missing="$missing numba-cuda[cu12]"
    [ -z "$missing" ] || echo "missing in $wheels:$missing"
    for package in torch "jax[cuda12]"; do
        install "$package" || echo "missing in $wheels, so nothing is compared with it: $package"
    done
fi
export PYTHONPATH="$PWD:$PWD/tests:$PWD/tests/tools:$PWD/tests/backends/cuda${PYTHONPATH:+:$PYTHONPATH}"
FUNCTAD_CACHE_DIR=${FUNCTAD_CACHE_DIR:-$(mktemp -d)}
export FUNCTAD_CACHE_DIR
"$python" -c "import numba, functad" || { echo "functad cannot be imported: see above"; exit 1; }

"$python" -m functad doctor | tee "$results/doctor.txt"
echo "correctness, $(left) s left"
checks="products functions special_values loops long_rows"
# shellcheck disable=SC2086
timeout 150 "$python" tests/backends/cuda/cuda_simulated.py $checks >"$results/checks.txt" 2>&1 || echo "unfinished" >>"$results/checks.txt"
grep -v "^ok " "$results/checks.txt"
echo "$(grep -c "^ok " "$results/checks.txt") checks passed, $(grep -c "^FAIL" "$results/checks.txt") failed"

echo "benchmarks, $(left) s left"
seconds=$(($(left) - 90))
timeout "$(left)" "$python" -m benchmarks.gpu "$results" --seconds "$seconds" $small
for threads in 32 64 256 512 1024; do
    [ "$(left)" -gt 20 ] || { echo "no time for $threads threads a block and more"; break; }
    [ -z "$tiny" ] || [ "$threads" = 32 ] || break
    timeout "$(left)" "$python" -m benchmarks.gpu "$results" --seconds 12 --threads "$threads" $small
done
echo "results in $results, after $(($(date +%s) - start)) s"
! grep -q "^FAIL" "$results/checks.txt"
