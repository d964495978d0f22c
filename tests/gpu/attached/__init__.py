"""Front ends of attached libraries on a GPU: programs that record their kernels, and check what is served."""
