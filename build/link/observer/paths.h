// Paths: what a process does with a file, noted under its absolute name.
#ifndef PRECAST_OBSERVER_PATHS_H
#define PRECAST_OBSERVER_PATHS_H

#include <stddef.h>

#define LONGEST_PATH 4096

size_t precast_absolute(char *out, int folder, const char *path);
void precast_path(int kind, const void *caller, int folder, const char *path, int failed);
void precast_links(const void *caller, const char *path);
void precast_linked(const void *caller, int from_folder, const char *from, int to_folder, const char *to);
void precast_renamed(const void *caller, int from_folder, const char *from, int to_folder, const char *to);
int precast_bars(const void *caller, int folder, const char *path, int lists);
int precast_exists(int folder, const char *path, int flags);
void precast_opened(const void *caller, int folder, const char *path, int flags, int existed, int file);

#endif
