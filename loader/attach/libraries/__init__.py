"""Libraries of precast-attach that engines import by these names."""
