"""What a bench is made of: rounds over the variants of a cache, the report, the roofline and its picture."""
