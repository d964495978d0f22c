"""Signing: provenance of caches, signatures of it, checks of signed caches and wheels, and their bills of materials."""
