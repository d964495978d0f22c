"""Programs that manifests name under ``script``: what they ask a library for is built."""
