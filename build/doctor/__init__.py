"""The facts that ``precast doctor`` judges: this machine's packages, tools, driver and caches."""
