"""Commands that look: list, show, diff, export, doctor, schema."""
