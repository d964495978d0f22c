"""``python -m precast``: the command ``precast``, by the Python that is named."""

from __future__ import annotations

from precast.cli.main import run

if __name__ == "__main__":
    run()
