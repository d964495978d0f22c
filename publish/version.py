"""The version, which is that of precast. The build back end reads it as text: keep it a plain assignment."""

VERSION = "0.1.0"
