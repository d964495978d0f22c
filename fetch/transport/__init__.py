"""What fetching and pushing share: HTTP, registries, credentials, and folders replaced in one step."""
