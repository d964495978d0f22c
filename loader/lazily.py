"""Imports that wait until they are needed, and that no fork cuts in half.

Python forgets the threads of a process in its forked child, but not the locks of the modules that they were
importing: a child that needs such a module would wait for ever. So whoever imports late holds ``IMPORTING``, and a fork
waits for it.

>>> with IMPORTING:
...     import json
"""

from __future__ import annotations

import os
import threading

IMPORTING = threading.RLock()

os.register_at_fork(before=IMPORTING.acquire, after_in_parent=IMPORTING.release, after_in_child=IMPORTING.release)
