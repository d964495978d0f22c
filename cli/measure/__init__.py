"""Commands that need a GPU: verify, bench, tune."""
