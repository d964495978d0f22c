"""What each lane does by itself."""
