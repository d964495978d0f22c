"""Commands that ship: wheel, bundle, merge."""
