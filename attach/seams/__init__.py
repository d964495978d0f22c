"""The kinds of seams, and what they look a kernel up by: how a library goes from a key to a compiled kernel."""
