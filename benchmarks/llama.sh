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

tokens="1 16 100 128 512 700 2048 4096"
products() { for m in $tokens; do for nk in "$@"; do echo "--problem m=$m,n=${nk%,*},k=${nk#*,}"; done; done; }
lengths() { for t in $tokens; do echo "--problem batch=1,queries=$t,keys=$t,kv_heads=8,padding=0"; done; }
rows() { for t in $tokens; do echo "--problem $1=$t"; done; }

step verify-small precast verify "$cache" --op rotary_paged --op act_and_mul --op rmsnorm_fp8 --op add_rmsnorm --timeout 60 --json
tail -n 3 "$out/verify-small.txt"
if [ -z "${QUICK:-}" ]; then
    step verify-products precast verify "$cache" --op gemm_gated --op gemm_act --small --timeout 60 --json
    tail -n 3 "$out/verify-products.txt"
fi
# shellcheck disable=SC2046  # each problem is two words
{
    step bench-gemm precast bench "$cache" --op gemm -o "$out/gemm.json" --timeout 60 \
        $(products 6144,4096 4096,4096 28672,4096 4096,14336)
    step bench-gated precast bench "$cache" --op gemm_gated -o "$out/gated.json" --timeout 60 $(products 14336,4096)
    step bench-attention precast bench "$cache" --op attention -o "$out/attention.json" --timeout 60 $(lengths)
    step bench-act precast bench "$cache" --op act_and_mul -o "$out/act.json" --timeout 60 $(rows rows)
    step bench-norm precast bench "$cache" --op add_rmsnorm -o "$out/norm.json" --timeout 60 $(rows rows)
    step bench-rotary precast bench "$cache" --op rotary_paged -o "$out/rotary.json" --timeout 60 $(rows tokens)
}
for name in gemm gated attention act norm rotary; do
    [ -s "$out/$name.json" ] && step "tune-$name" precast tune "$cache" "$out/$name.json"
done
step llama timeout 550 "$python" "$here/examples/llama.py" --mlp both --json "$out/llama.json" ${COMPILE:+--compile}
cat "$out/llama.txt"
step profile timeout 120 "$python" "$here/benchmarks/llama_profile.py" --tokens 1 128 1024
cat "$out/profile.txt"
