#!/usr/bin/env bash
# rehearse.sh WORK: does what make.py has made set up and import beside torch 2.11's libraries? No GPU, no driver, 10 GB.
# In place of the GPU machine's Python stands one with NVIDIA's libraries alone, and in place of the driver one that fails.
set -euo pipefail
work=$(realpath "$1") top=$(realpath "$1")/rehearsal
old="nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56 nvidia-cusparselt-cu13==0.8.0 nvidia-nccl-cu13==2.28.9
  nvidia-nvjitlink==13.0.88"  # where torch 2.11's differ from those of vLLM's torch
rm -rf "$top"; mkdir -p "$top/driver"
"$work/engine/bin/python" -m venv --without-pip "$top/base"
base=$top/base/lib/python3.12/site-packages site=$(echo "$work"/engine/lib/python3.*/site-packages)
# shellcheck disable=SC2086
[ -d "$work/torch211" ] || uv pip install -q --no-deps --python "$top/base" --target "$work/torch211" $old
mkdir "$base/nvidia"; cp -al "$site/nvidia/cu13" "$site/nvidia/nvshmem" "$base/nvidia/"
cp -alf "$work"/torch211/nvidia/. "$base/nvidia/"
for name in CtxGetCurrent CtxSetCurrent DeviceGetAttribute DevicePrimaryCtxRetain DriverGetVersion GetErrorString \
  GetProcAddress_v2 MemAddressFree MemAddressReserve MemCreate MemGetAllocationGranularity MemMap MemRelease MemSetAccess \
  MemUnmap PointerGetAttribute TensorMapEncodeTiled; do echo "int cu$name(void) { return 100; }"; done |
  gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$top/driver/libcuda.so.1" -xc -
export PYTHONPATH=$work/pieces/00 LD_LIBRARY_PATH=$top/driver
"$top/base/bin/python" "$work/pieces/00/pieces.py" "$top" "$work"/pieces/*/*.zst
"$top/base/bin/python" "$work/pieces/00/run.py" "$top" --cells nothing
