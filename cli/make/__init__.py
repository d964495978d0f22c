"""Commands that make: new, plan, requests, build, check, reproduce, record."""
