"""Exports of single variants, for C++ and for NVIDIA's tools."""
