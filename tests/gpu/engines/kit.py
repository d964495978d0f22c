"""Collect what a GPU machine without a network needs for the cases of this folder: no compiler, and no engine's C++.

    python tests/gpu/engines/kit.py DEST CACHE SITE

CACHE is a cache of the cases for the GPU. SITE is the ``site-packages`` of an environment for the GPU machine's Python
with the engines and what they import (``tests/engines/prepare.sh`` names it). What no import needs and what comes with
torch stays here. On the GPU machine: bash tests/gpu/engines/run DEST
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PYTHON_ONLY = ("vllm", "sglang", "flashinfer", "transformers", "openai", "compressed_tensors", "IPython")
OTHERS = (
    "PIL", "quack", "aiohappyeyeballs", "aiohttp", "aiosignal", "annotated_doc", "annotated_types", "anyio", "attr",
    "attrs",
    "cachetools", "cbor2", "certifi", "charset_normalizer", "cloudpickle", "cpuinfo", "dill", "einops", "fastapi",
    "frozenlist", "h11", "httpcore", "httpx", "httpcore2", "httpx2", "huggingface_hub", "idna", "llguidance",
    "loguru", "msgspec", "multidict", "openai_harmony", "opentelemetry", "orjson", "packaging",
    "partial_json_parser", "prometheus_client", "propcache", "psutil", "pybase64", "pydantic", "pydantic_core",
    "pydantic_extra_types", "python_multipart", "regex", "requests", "safetensors", "sentencepiece",
    "sniffio", "starlette", "tiktoken", "tokenizers", "torchvision", "tqdm", "traitlets", "truststore", "tvm_ffi",
    "typing_inspection", "urllib3", "uvloop", "xgrammar", "xxhash", "yarl", "zmq", "zstandard",
)  # fmt: skip
MODULES = ("pynvml.py", "_cffi_backend.cpython-312-x86_64-linux-gnu.so")
CUDA_SOURCES = "sglang/kernels/jit/"  # it refuses to be imported without them
LEFT_OUT = re.compile(
    r"(^|/)(tests?|__pycache__|include)/|\.(pyi|pyx|pxd|a|h|hpp|cu|cuh)$"
    r"|^sglang/multimodal_gen/|^flashinfer/(experimental/(cake_vsa|cake_mxfp8|b12x)|data|moe_ep/kernel_src)"
    r"|^transformers/models/(?!auto/)\w+/(modeling|modular|image_processing|video_processing|convert|feature_extraction)"
    r"|^(numpy|scipy)[.]libs/|^pillow.libs/lib(avif|harfbuzz|freetype|lcms|webp|sharpyuv|png|brotli)"
    r"|^(torch|pip|setuptools|nvidia_c|anthropic|jedi|mistral|numpy|sympy)[\w.-]*dist-info/"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dest", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("site", type=Path)
    options = parser.parse_args()
    dest: Path = options.dest.resolve()
    shutil.rmtree(dest, ignore_errors=True)
    dest.mkdir(parents=True)
    shutil.copytree(options.cache, dest / "cache")
    wheel: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", dest]
    subprocess.run([*wheel, ROOT / "loader", ROOT / "attach"], check=True)
    with tarfile.open(dest / "site.txz", "w:xz", preset=6) as archive, tempfile.TemporaryDirectory() as folder:
        for file in sorted(files(options.site)):
            archive.add(stripped(file, Path(folder)), str(file.relative_to(options.site)), recursive=False)
    for file in sorted(dest.rglob("*")):
        if file.stat().st_size > 10**5:
            print(f"{file.stat().st_size:>10}  {file.relative_to(dest)}")


def files(site: Path) -> Iterator[Path]:
    """What travels of an environment."""
    for entry in site.iterdir():
        if entry.name in MODULES:
            yield entry
        elif entry.suffix in (".dist-info", ".libs") or entry.name in (*PYTHON_ONLY, *OTHERS):
            for file in entry.rglob("*"):
                name = file.relative_to(site).as_posix()
                python = file.suffix == ".py" or entry.name not in PYTHON_ONLY
                if file.is_file() and (name.startswith(CUDA_SOURCES) or (python and not LEFT_OUT.search(name))):
                    yield file


def stripped(file: Path, folder: Path) -> Path:
    """A native module without its debugging symbols; another file as it is."""
    if ".so" not in file.name:
        return file
    subprocess.run(["strip", "--strip-unneeded", "-o", folder / "stripped", file], check=True)
    return folder / "stripped"


if __name__ == "__main__":
    main()
