/* Stands in for a cache's runtime library: what the entries need, under a name of its own. */
long long precast_test_scale(long long value) { return value * PRECAST_TEST_FACTOR; }
