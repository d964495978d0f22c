"""What an operator of a service can turn on: a log, dumps of calls, a file of the requests for kernels."""
