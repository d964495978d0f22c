"""The steps around the products of a mixture of experts: entries sorted by expert, rows moved there and back."""
