"""The work of ``precast verify``: variants verified in parallel, evidence of the result, and compute-sanitizer."""
