"""The environment variables that turn on what the loader can log, dump and count."""

VARIABLES = (
    "PRECAST_LOG",
    "PRECAST_LOG_FILE",
    "PRECAST_REQUESTS",
    "PRECAST_DUMP",
    "PRECAST_DUMP_LIMIT",
    "PRECAST_DUMP_CALLS",
)
