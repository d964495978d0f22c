"""What the commands share: tables, JSON and progress."""
