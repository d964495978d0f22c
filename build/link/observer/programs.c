// The C library's functions that start programs: those are observed, too, and each start is noted.
#include "log.h"
#include "paths.h"
#include "variables.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// A program without a folder is looked up in PATH, so that it has no absolute name yet.
static void note_program(int kind, const void *caller, const char *path, pid_t process) {
  if (!precast_active() || !path || !*path) return;
  int before = errno;
  char name[LONGEST_PATH];
  size_t length = strnlen(path, LONGEST_PATH - 1);
  if (strchr(path, '/'))
    length = precast_absolute(name, AT_FDCWD, path);
  else
    memcpy(name, path, length);
  struct about about = {.kind = kind, .caller = caller, .stamp = {process}};
  precast_event(&about, name, length);
  errno = before;
}

// The origin is that of one start. Between vfork and exec, the thread's variables are still those of the parent.
#define EXECUTE(path, call)                                                                                            \
  if (strchr(path, '/') && precast_bars(CALLER, AT_FDCWD, path, 0)) return -1;                                         \
  note_program(EXECUTED, CALLER, path, 0);                                                                             \
  uint32_t origin = precast_origin;                                                                                    \
  precast_origin = 0;                                                                                                  \
  int result = call;                                                                                                   \
  precast_origin = origin;                                                                                             \
  note_program(REFUSED, CALLER, path, 0);                                                                              \
  return result

EXPORT int execve(const char *path, char *const *words, char *const *variables) {
  NEXT(int (*)(const char *, char *const *, char *const *), execve);
  WITH_OBSERVER(all, variables);
  EXECUTE(path, real(path, words, all));
}

EXPORT int execv(const char *path, char *const *words) {
  NEXT(int (*)(const char *, char *const *, char *const *), execve);
  WITH_OBSERVER(all, environ);
  EXECUTE(path, real(path, words, all));
}

EXPORT int execvpe(const char *name, char *const *words, char *const *variables) {
  NEXT(int (*)(const char *, char *const *, char *const *), execvpe);
  WITH_OBSERVER(all, variables);
  EXECUTE(name, real(name, words, all));
}

EXPORT int execvp(const char *name, char *const *words) {
  NEXT(int (*)(const char *, char *const *, char *const *), execvpe);
  WITH_OBSERVER(all, environ);
  EXECUTE(name, real(name, words, all));
}

EXPORT int fexecve(int file, char *const *words, char *const *variables) {
  NEXT(int (*)(int, char *const *, char *const *), fexecve);
  WITH_OBSERVER(all, variables);
  EXECUTE("fexecve", real(file, words, all)); // its name is that of what then begins
}

EXPORT int execveat(int folder, const char *path, char *const *words, char *const *variables, int flags);
int execveat(int folder, const char *path, char *const *words, char *const *variables, int flags) {
  NEXT(int (*)(int, const char *, char *const *, char *const *, int), execveat);
  WITH_OBSERVER(all, variables);
  char name[LONGEST_PATH];
  const char *whole = precast_absolute(name, folder, path) ? name : "execveat";
  EXECUTE(whole, real(folder, path, words, all, flags));
}

// The words of a call of execl: they end with NULL, after which execle has the variables.
#define WORDS(first, last)                                                                                             \
  size_t count = 1;                                                                                                    \
  va_list more;                                                                                                        \
  va_start(more, first);                                                                                               \
  while (va_arg(more, char *)) count++;                                                                                \
  va_end(more);                                                                                                        \
  char *words[count + 1], **variables = environ;                                                                       \
  words[0] = (char *)(size_t)first;                                                                                    \
  va_start(more, first);                                                                                               \
  for (size_t i = 1; i <= count; i++) words[i] = va_arg(more, char *);                                                 \
  last;                                                                                                                \
  va_end(more)

EXPORT int execl(const char *path, const char *first, ...) {
  WORDS(first, (void)0);
  return execve(path, words, variables);
}

EXPORT int execlp(const char *name, const char *first, ...) {
  WORDS(first, (void)0);
  return execvpe(name, words, variables);
}

EXPORT int execle(const char *path, const char *first, ...) {
  WORDS(first, variables = va_arg(more, char **));
  return execve(path, words, variables);
}

// The file is opened between the start of the process and that of the program, by the C library itself.
EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *restrict actions, int file,
                                            const char *restrict path, int flags, mode_t mode) {
  NEXT(int (*)(posix_spawn_file_actions_t *, int, const char *, int, mode_t), posix_spawn_file_actions_addopen);
  int makes = (flags & O_ACCMODE) != O_RDONLY && ((flags & O_TRUNC) || !precast_exists(AT_FDCWD, path, flags));
  if (makes || (flags & O_ACCMODE) != O_WRONLY) precast_path(makes ? MADE : OPENED, NULL, AT_FDCWD, path, 0);
  return real(actions, file, path, flags, mode);
}

typedef int (*spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                     char *const *, char *const *);

#define SPAWN(name)                                                                                                    \
  EXPORT int name(pid_t *restrict process, const char *restrict path, const posix_spawn_file_actions_t *actions,       \
                  const posix_spawnattr_t *restrict attributes, char *const *restrict words,                           \
                  char *const *restrict variables) {                                                                   \
    NEXT(spawn, name);                                                                                                 \
    WITH_OBSERVER(all, variables);                                                                                     \
    if (strchr(path, '/') && precast_bars(CALLER, AT_FDCWD, path, 0)) return ENOENT;                                   \
    pid_t started = 0;                                                                                                 \
    int result = real(&started, path, actions, attributes, words, all);                                                \
    if (!result) note_program(EXECUTED, CALLER, path, started), precast_origin = 0;                                    \
    if (!result && process) *process = started;                                                                        \
    return result;                                                                                                     \
  }

SPAWN(posix_spawn)
SPAWN(posix_spawnp)

// The C library's own would start a shell without the variables.
EXPORT int system(const char *line) {
  NEXT(int (*)(const char *), system);
  if (!precast_active() || !line) return real(line);
  struct sigaction ignored = {.sa_handler = SIG_IGN}, interrupt, quit;
  sigset_t blocked, before, usual;
  sigemptyset(&ignored.sa_mask);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGCHLD);
  sigaction(SIGINT, &ignored, &interrupt);
  sigaction(SIGQUIT, &ignored, &quit);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  sigemptyset(&usual);
  if (interrupt.sa_handler != SIG_IGN) sigaddset(&usual, SIGINT);
  if (quit.sa_handler != SIG_IGN) sigaddset(&usual, SIGQUIT);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  char *words[] = {"sh", "-c", (char *)(size_t)line, NULL};
  pid_t process;
  int status = 127 << 8;
  if (!posix_spawn(&process, "/bin/sh", NULL, &attributes, words, environ))
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
  posix_spawnattr_destroy(&attributes);
  sigaction(SIGINT, &interrupt, NULL);
  sigaction(SIGQUIT, &quit, NULL);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return status;
}

EXPORT FILE *popen(const char *line, const char *mode) {
  NEXT(FILE * (*)(const char *, const char *), popen);
  if (!precast_active()) return real(line, mode);
  char **before = environ;
  WITH_OBSERVER(all, before);
  environ = all; // it has no argument for them
  FILE *file = real(line, mode);
  environ = before;
  if (file) note_program(STARTED, CALLER, "/bin/sh", 0), precast_origin = 0;
  return file;
}
