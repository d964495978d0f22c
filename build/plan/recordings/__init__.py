"""Manifests that are written from recordings of programs and from request files of services."""
