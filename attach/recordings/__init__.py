"""Recordings of attached libraries: the forms of keys and of return values, and the file that holds them."""
