"""What ``python -m precast.loader`` prints: lists, decisions, the state of the machine, the page of errors."""
