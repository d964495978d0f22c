"""``gemm`` on Hopper: its kernel, the warp that loads, and how results are stored."""
