"""FlashInfer's norms, compiled by the library's own functions: the example of an adapter (docs/authoring.md)."""
