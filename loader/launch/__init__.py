"""From an artifact to a call: libraries opened from memory, arguments packed, kernels launched."""
