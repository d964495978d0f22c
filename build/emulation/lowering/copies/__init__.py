"""Copies: cp.async, bulk copies, copies by tensor maps, and changes of these."""
