"""Choose between the candidates of an op: measure or model their times, prune them, and put the times into a cache."""
