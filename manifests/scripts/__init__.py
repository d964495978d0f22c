"""Programs that manifests name under ``script``, for what they ask a library for, and functions to name under ``compile``."""
