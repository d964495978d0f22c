"""Native code: the call path, compiled as ``_callpath``, and the C sources of libprecast."""
