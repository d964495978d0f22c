"""What a watched service writes: files of requests."""
