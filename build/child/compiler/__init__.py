"""What a worker does with the DSL: its objects are caught and selected, and it is warmed up."""
