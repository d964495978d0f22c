"""What measures kernels: verified with a GPU or by emulation, timed, tuned; and the page that reports it."""
