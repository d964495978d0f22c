"""What stands in for the DSL: its answers where it is installed, placeholders for its names where it is not."""
