"""The process that uses the GPU: it launches artifacts of a cache."""
