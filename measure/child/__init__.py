"""What runs in child processes only: nothing imports it."""
