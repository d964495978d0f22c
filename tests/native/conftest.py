"""A cache on disk, the folder that is made of it, and libprecast compiled, for the tests of this room."""

from pathlib import Path

import pytest

from tests.helpers.loader_fixtures import native, path
from tests.helpers.native.libprecast import frozen, libprecast, program, request

__all__ = ["folder", "libprecast", "native", "path", "program"]


@pytest.fixture
def folder(path: Path, tmp_path: Path) -> Path:
    """What ``precast native`` makes of the cache, for two targets."""
    dtypes = [request(config={"dtype": dtype}) for dtype in ("bfloat16", "float32")]
    pinned = request(config={"dtype": "torch.bfloat16", "threads": 128})
    sizes = [request(config={"dtype": "bfloat16"}, problem={"m": m, "n": 64}) for m in (1, 16, 256)]
    return frozen(path, tmp_path / "kernels", *dtypes, pinned, *sizes, targets=("sm_90a", "sm_100a"))
