"""What benchmarks/build.py builds, and how."""
