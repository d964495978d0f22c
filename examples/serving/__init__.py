"""A small HTTP service that generates tokens: ``python -m serving``, run in ``examples``. See docs/deployment.md."""
