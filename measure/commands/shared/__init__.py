"""What the commands share: the contests that manifests select, and results as text, JSON and JUnit."""
