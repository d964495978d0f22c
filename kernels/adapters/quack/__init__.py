"""quack's matrix products: plain, for ``gemm``, and with an activation, ``gemm_act`` and ``gemm_gated``."""
