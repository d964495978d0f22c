"""Commands that inspect: list, show, diff, report, export, store, toolchains, doctor, error, schema."""
