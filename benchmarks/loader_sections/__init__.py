"""The sections of benchmarks/loader.py."""
