"""What an operator of a service can turn on: a log, a file of the requests for kernels."""
