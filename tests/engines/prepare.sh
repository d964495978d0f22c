#!/usr/bin/env bash
# A Python with vLLM's and SGLang's own sources, and with what their modules import: tests/engines/prepare.sh FOLDER
# It needs a network, and the environment of `make test`. Then: PRECAST_ENGINES=FOLDER/bin/python make test ROOM=engines
set -euo pipefail
folder=${1:?the folder to make}
test=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.work/test" && pwd)
"$test/bin/python" -m venv "$folder"
site=$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
shared=$("$test/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "import site; site.addsitedir('$shared')" > "$site/shared.pth" # torch, the DSL, quack, flashinfer and precast
pip=("$folder/bin/python" -m pip install --quiet --no-warn-conflicts)
"${pip[@]}" --no-deps vllm==0.33.0 sglang==0.5.23 compressed-tensors==0.17.0 xgrammar==0.2.8
"${pip[@]}" aiohttp anthropic blake3 cachetools cbor2 cloudpickle depyf==0.20.0 einops 'fastapi<0.137' gguf ijson interegular IPython \
  lark==1.2.2 llguidance lm-format-enforcer==0.11.3 loguru 'mcp>=2.2,<3' 'mistral_common>=1.11.6' msgspec numba==0.65.0 nvidia-ml-py \
  'openai>=2.25.0' openai-harmony opentelemetry-sdk opentelemetry-semantic-conventions-ai orjson 'oss-harmony>=0.0.11' \
  outlines_core==0.2.14 partial-json-parser pillow prometheus-fastapi-instrumentator psutil py-cpuinfo pybase64 python-json-logger \
  python-multipart pyzmq regex scipy sentencepiece setproctitle tiktoken transformers==5.19.0 uvicorn uvloop watchfiles xxhash
mkdir -p "$site/torchvision" # the real one is built for CUDA; no kernel of the DSL needs it
cat > "$site/torchvision/__init__.py" <<'PYTHON'
import sys
from precast.loader.attach.libraries.native_stubs import _Empty

__version__ = "0"
for name in ("transforms", "transforms.functional", "transforms.v2", "transforms.v2.functional", "io"):
    module = sys.modules[f"{__name__}.{name}"] = _Empty(f"{__name__}.{name}")
    module.__path__ = []
PYTHON
