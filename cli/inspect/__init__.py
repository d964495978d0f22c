"""Commands that inspect: list, show, diff, report, export, store, doctor, error, schema."""
