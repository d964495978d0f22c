"""libprecast, which launches kernels in programs without Python: its C sources, what compiles them, frozen tables."""
