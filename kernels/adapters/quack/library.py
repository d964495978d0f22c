"""quack: the version that its adapters support."""

from __future__ import annotations

from precast.kernels.adapters.pinned_package import PinnedPackage

QUACK = PinnedPackage(distribution="quack-kernels", version="0.6.5", extra="quack")
