"""Distributions: a cache as a wheel, and a bundle of wheels that installs without a network."""
