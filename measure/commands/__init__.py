"""The commands verify, bench, tune and report: one file for each."""
