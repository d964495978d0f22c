"""The page of ``precast report``: the variants of a cache, their sizes, measurements and changes."""
