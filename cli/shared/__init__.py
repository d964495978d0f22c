"""What commands share: options, values, plans, tables and JSON, progress, examples for the help."""
