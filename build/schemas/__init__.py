"""The published JSON Schemas, which ``make reference`` writes."""
