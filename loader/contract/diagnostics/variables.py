"""The environment variables that turn on what the loader can log and count."""

VARIABLES = (
    "PRECAST_LOG",
    "PRECAST_LOG_FILE",
    "PRECAST_REQUESTS",
)
