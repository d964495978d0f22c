"""The machine: this host, its GPUs and their facts, as the driver reports them."""
