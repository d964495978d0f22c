"""Health: whether the GPU still works in this process. After a fault, nothing does."""

from __future__ import annotations

import sys


def healthy() -> bool:
    """Whether the GPU answers; also where this process has none, or has not used torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return True
    try:
        torch.cuda.synchronize()
        return bool((torch.zeros(1, device="cuda") == 0).item())
    except Exception:
        return False
