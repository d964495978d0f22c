"""A small HTTP service that generates tokens: ``python -m serving``, started in ``examples``. See docs/deployment.md."""
