"""Commands that build: plan, build, check, reproduce."""
