"""From a manifest to a plan, which lists every variant to build."""
