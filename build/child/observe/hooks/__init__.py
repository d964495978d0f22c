"""The hooks of the observer: each watches one kind of request, and reports it."""
