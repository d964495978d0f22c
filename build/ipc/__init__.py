"""Child processes: started, sent requests, limited in time and memory, and ended."""
