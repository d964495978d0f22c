"""What the commands share: tables and JSON, progress, failures as text, examples for the help."""
