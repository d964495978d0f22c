"""Files to begin with: a kernel with all that a build, a verification and a benchmark need, a warm-up, a CI."""
