"""Tests of the call path itself: what it does not serve, such as a free-threaded Python, calls through tvm_ffi."""

from __future__ import annotations

import pytest

from precast.loader.launch.fastcall import unsupported

needs_call_path = pytest.mark.skipif(unsupported() is not None, reason=f"no call path: {unsupported()}")
