"""The published JSON Schemas, and the parts that they share."""
