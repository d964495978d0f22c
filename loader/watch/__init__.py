"""What somebody who runs a service turns on by a variable: a log, dumps of calls, a file of what was asked for."""

VARIABLES = (
    "PRECAST_LOG",
    "PRECAST_LOG_FILE",
    "PRECAST_REQUESTS",
    "PRECAST_DUMP",
    "PRECAST_DUMP_LIMIT",
    "PRECAST_DUMP_CALLS",
)
