#!/usr/bin/env bash
# Both engines with precast, each as a resolver installs it: tests/engines/prepare.sh FOLDER [PYTHON]
# It needs uv, a network and some 30 GB: torch's build is for CUDA, and runs without a GPU, too.
# Then: PRECAST_ENGINES=FOLDER make test ROOM=engines
set -euo pipefail
folder=${1:?the folder to make}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
install() {
  local name=$1
  shift
  uv venv --python "${PYTHON:-3.12}" "$folder/$name"
  uv pip install --python "$folder/$name/bin/python" "$@" -e "$root/loader" -e "$root/attach" -e "$root"
}
PYTHON=${2:-}
install vllm vllm==0.33.0
install sglang --prerelease=allow sglang==0.5.23 # it requires a pre-release of flash-attn-4
