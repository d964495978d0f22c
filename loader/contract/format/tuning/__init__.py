"""Measurements of an op: rows, the tables that hold them, and the choice between variants by them."""
