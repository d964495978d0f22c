#!/usr/bin/env bash
# llama.sh CACHE OUT: on a GPU, verify the fused ops of a cache of manifests/llama.yaml, measure what examples/llama.py
# chooses among, put the times into CACHE, and run the example. Each step that fails is told, and costs itself alone.
# QUICK=1 leaves out the verification of products; COMPILE=1 measures torch.compile as well (minutes).
set -u
cache=$(realpath "$1") out=$(realpath -m "$2") python=${PYTHON:-python3}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$out"
export PRECAST_CACHE_PATH=$cache PYTHONDONTWRITEBYTECODE=1
precast() { timeout 500 "$python" -m precast.cli.main "$@"; }
step() { local name=$1 start=$SECONDS; shift; "$@" > "$out/$name.txt" 2>&1; echo "$name: status $?, $((SECONDS - start)) s"; }

step verify-small precast verify "$cache" --op rotary_paged --op act_and_mul --op rmsnorm_fp8 --op fused_add_rmsnorm --timeout 60 --json
tail -n 3 "$out/verify-small.txt"
if [ -z "${QUICK:-}" ]; then
    step verify-products precast verify "$cache" --op gemm_gated --op gemm_act --small --timeout 60 --json
    tail -n 3 "$out/verify-products.txt"
fi
for op in gemm_gated gemm fused_add_rmsnorm act_and_mul attention; do
    step "tune-$op" precast tune measure "$here/manifests/llama.yaml" --cache "$cache" --op "$op" -o "$out/llama-h200.json" --timeout 20
    tail -n 1 "$out/tune-$op.txt"
done
step put precast tune apply "$cache" "$out/llama-h200.json"
step llama timeout 550 "$python" "$here/examples/llama.py" --mlp both --json "$out/llama.json" ${COMPILE:+--compile}
cat "$out/llama.txt"
step llama-early timeout 200 "$python" "$here/examples/llama.py" --early-weights --json "$out/llama-early.json"
cat "$out/llama-early.txt"
step profile timeout 120 "$python" "$here/benchmarks/llama_profile.py" --tokens 1 128 1024
cat "$out/profile.txt"
