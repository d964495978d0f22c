"""What somebody who runs a service turns on by a variable: a log, dumps of calls, a file of what was asked for."""
