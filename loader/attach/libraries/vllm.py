"""What gives vLLM its prebuilt kernels (``docs/upstream/vllm.patch``)."""

from precast.attach.libraries.vllm import prebuilt_executor

__all__ = ["prebuilt_executor"]
