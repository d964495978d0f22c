"""What runs in a child process, and only there. Nothing imports these modules: they are started by name."""
