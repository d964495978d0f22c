"""Child processes: how one is started, asked, bounded in time and memory, and ended."""
