"""The pictures of the pages, drawn as SVG from measured results: ``python benchmarks/draw.py`` writes them."""
