"""Measuring candidates against each other: which there are, the measuring, and which are never needed."""
