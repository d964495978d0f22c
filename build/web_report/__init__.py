"""A cache as one page for people: what it holds, what that costs, what was measured, and what changed."""
