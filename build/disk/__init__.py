"""Files that are written atomically, and the memo of earlier results."""
