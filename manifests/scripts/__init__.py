"""Programs that manifests name under ``script``, and functions that they name under ``compile``."""
