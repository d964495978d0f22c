"""From a manifest to a plan: every variant to build, fully decided."""
