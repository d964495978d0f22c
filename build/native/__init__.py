"""libprecast: the loader for programs without Python. Its header, its C sources, and what compiles them."""
