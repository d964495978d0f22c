"""What builder and loader agree on, and every file that both read or write."""
