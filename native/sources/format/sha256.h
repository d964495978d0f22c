/* SHA-256 (FIPS 180-4), as 64 hexadecimal digits. */
#ifndef PRECAST_SHA256_H
#define PRECAST_SHA256_H

#include <stddef.h>

#define DIGEST 64

/* The digest of some bytes, and a null behind it. */
void sha256(const void *data, size_t size, char digest[DIGEST + 1]);

#endif
