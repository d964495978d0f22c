"""From a manifest to a plan: what a person asks for becomes variants, with nothing left to decide."""
