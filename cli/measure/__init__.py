"""Commands that measure on a GPU: verify, bench, tune."""
