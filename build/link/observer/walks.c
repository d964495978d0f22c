// The C library's functions that walk through folders: it lists them by functions of its own, which nothing replaces.
#include "log.h"
#include "paths.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <fts.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

EXPORT ssize_t getdents64(int folder, void *out, size_t size) {
  NEXT(ssize_t (*)(int, void *, size_t), getdents64);
  if (precast_bars(CALLER, folder, ".", 1)) return -1;
  ssize_t result = real(folder, out, size);
  precast_path(FOLDER, CALLER, folder, ".", result < 0);
  return result;
}

#define SCANDIRAT(name, kind)                                                                                          \
  EXPORT int name(int folder, const char *restrict path, struct kind ***restrict names,                                \
                  int (*filter)(const struct kind *), int (*order)(const struct kind **, const struct kind **)) {      \
    NEXT(int (*)(int, const char *, struct kind ***, int (*)(const struct kind *),                                     \
                 int (*)(const struct kind **, const struct kind **)),                                                 \
         name);                                                                                                        \
    if (precast_bars(CALLER, folder, path, 1)) return -1;                                                              \
    int result = real(folder, path, names, filter, order);                                                             \
    precast_path(FOLDER, CALLER, folder, path, result < 0);                                                            \
    return result;                                                                                                     \
  }

SCANDIRAT(scandirat, dirent)
SCANDIRAT(scandirat64, dirent64)

static _Thread_local const void *walker; // the code that has called glob, ftw or nftw

// glob takes the functions with which it lists and checks.
static void *open_listed(const char *path) {
  if (precast_bars(walker, AT_FDCWD, path, 1)) return NULL;
  DIR *result = opendir(path);
  precast_path(FOLDER, walker, AT_FDCWD, path, result == NULL);
  return result;
}

static void close_listed(void *folder) { closedir(folder); }

#define GLOB(name, suffix, kind)                                                                                       \
  static void *read_##name(void *folder) { return readdir##suffix(folder); }                                           \
  static int stat_##name(const char *path, struct kind *facts) {                                                       \
    if (precast_bars(walker, AT_FDCWD, path, 0)) return -1;                                                            \
    int result = fstatat##suffix(AT_FDCWD, path, facts, 0);                                                            \
    precast_path(ACCESS, walker, AT_FDCWD, path, result != 0);                                                         \
    return result;                                                                                                     \
  }                                                                                                                    \
  static int lstat_##name(const char *path, struct kind *facts) {                                                      \
    if (precast_bars(walker, AT_FDCWD, path, 0)) return -1;                                                            \
    int result = fstatat##suffix(AT_FDCWD, path, facts, AT_SYMLINK_NOFOLLOW);                                          \
    precast_path(ACCESS, walker, AT_FDCWD, path, result != 0);                                                         \
    return result;                                                                                                     \
  }                                                                                                                    \
  EXPORT int name(const char *restrict pattern, int flags, int (*failed)(const char *, int),                           \
                  glob##suffix##_t *restrict out) {                                                                    \
    NEXT(int (*)(const char *, int, int (*)(const char *, int), glob##suffix##_t *), name);                            \
    if (!precast_active() || (flags & GLOB_ALTDIRFUNC)) return real(pattern, flags, failed, out);                      \
    const void *before = walker;                                                                                       \
    walker = CALLER;                                                                                                   \
    out->gl_opendir = open_listed, out->gl_closedir = close_listed;                                                    \
    out->gl_readdir = (__typeof__(out->gl_readdir))(void *(*)(void *))read_##name;                                     \
    out->gl_stat = stat_##name, out->gl_lstat = lstat_##name;                                                          \
    int result = real(pattern, flags | GLOB_ALTDIRFUNC, failed, out);                                                  \
    out->gl_flags &= ~GLOB_ALTDIRFUNC;                                                                                 \
    walker = before;                                                                                                   \
    return result;                                                                                                     \
  }

GLOB(glob, , stat)
GLOB(glob64, 64, stat64)

static void note_visit(const void *caller, const char *path, int is_folder, int missing) {
  precast_path(is_folder ? FOLDER : STATUS, caller, AT_FDCWD, path, missing);
}

// The names that ftw and nftw visit begin with the given one, whatever the working folder is at that moment.
struct walk {
  void *function;
  const char *root;
  char name[LONGEST_PATH];
  size_t start;
  const void *caller;
};
static _Thread_local struct walk *walk;

static void note_walk(const char *path, int what) {
  size_t given = strlen(walk->root), length = strlen(path);
  if (!walk->start || length < given || walk->start + length - given >= LONGEST_PATH) return;
  memcpy(walk->name + walk->start, path + given, length - given + 1);
  note_visit(walk->caller, walk->name, what == FTW_D || what == FTW_DP || what == FTW_DNR, what == FTW_NS);
}

#define WALK(name, suffix, kind, last, pass)                                                                           \
  static int visit_##name(const char *path, const struct kind *facts, int what last) {                                 \
    note_walk(path, what);                                                                                             \
    return ((__##name##_func_t)walk->function)(path, facts, what pass);                                                \
  }
#define START(root, visited)                                                                                           \
  if (precast_bars(CALLER, AT_FDCWD, root, 1)) return -1;                                                              \
  struct walk here = {.function = (void *)visited, .root = root, .caller = CALLER}, *before = walk;                    \
  here.start = precast_absolute(here.name, AT_FDCWD, root);                                                            \
  walk = &here;
#define END(root)                                                                                                      \
  walk = before;                                                                                                       \
  precast_path(ACCESS, CALLER, AT_FDCWD, root, result == -1);                                                          \
  return result
#define PLAIN_WALK(name, suffix, kind)                                                                                 \
  WALK(name, suffix, kind, , )                                                                                         \
  EXPORT int name(const char *root, __##name##_func_t visited, int most) {                                             \
    NEXT(int (*)(const char *, __##name##_func_t, int), name);                                                         \
    if (!precast_active()) return real(root, visited, most);                                                           \
    START(root, visited)                                                                                               \
    int result = real(root, visit_##name, most);                                                                       \
    END(root);                                                                                                         \
  }
#define COMMA ,
#define NEW_WALK(name, suffix, kind)                                                                                   \
  WALK(name, suffix, kind, COMMA struct FTW *more, COMMA more)                                                         \
  EXPORT int name(const char *root, __##name##_func_t visited, int most, int flags) {                                  \
    NEXT(int (*)(const char *, __##name##_func_t, int, int), name);                                                    \
    if (!precast_active()) return real(root, visited, most, flags);                                                    \
    START(root, visited)                                                                                               \
    int result = real(root, visit_##name, most, flags);                                                                \
    END(root);                                                                                                         \
  }

PLAIN_WALK(ftw, , stat)
PLAIN_WALK(ftw64, 64, stat64)
NEW_WALK(nftw, , stat)
NEW_WALK(nftw64, 64, stat64)

// fts reads one entry at a time, by its name in the working folder of that moment.
#define FTS_READ(name, tree, entry)                                                                                    \
  EXPORT entry *name(tree *walk_of) {                                                                                  \
    NEXT(entry * (*)(tree *), name);                                                                                   \
    entry *found = real(walk_of);                                                                                      \
    if (found && found->fts_info != FTS_DP && found->fts_info != FTS_DC && found->fts_info != FTS_DOT)                 \
      note_visit(CALLER, found->fts_accpath, found->fts_info == FTS_D, found->fts_info == FTS_NS);                     \
    return found;                                                                                                      \
  }

FTS_READ(fts_read, FTS, FTSENT)
FTS_READ(fts64_read, FTS64, FTSENT64)
