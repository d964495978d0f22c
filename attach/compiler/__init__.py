"""What replaces the DSL: answers to its calls where it is installed, placeholders for its names where it is not."""
