"""What a watched service writes: dumps of calls, and files of requests."""
