"""The commands push, sign, verify-signature, sbom and bundle: one file for each."""
