"""The parts of ``precast bench``: rounds over the variants of a cache, the report, the roofline and its picture."""
