"""Commands that inspect: list, show, diff, export, store, doctor, error, schema."""
