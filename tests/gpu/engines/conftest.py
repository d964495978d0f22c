"""Programs for a GPU machine: they import engines, which are not always there, and hold no tests."""

collect_ignore_glob = ["warm_*.py"]
