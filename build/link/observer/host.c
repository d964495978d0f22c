// The C library's functions that query the environment, the clock, randomness, the host and the network.
#include "log.h"

#include <netdb.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

EXPORT char *getenv(const char *name) {
  NEXT(char *(*)(const char *), getenv);
  char *value = real(name);
  // Those of the interpreter's code are noted, too: it may contain the libraries of ctypes and sqlite3.
  struct about about = {.kind = VARIABLE, .caller = CALLER};
  if (precast_active()) precast_event(&about, name, strlen(name));
  return value;
}

EXPORT char *secure_getenv(const char *name) {
  NEXT(char *(*)(const char *), secure_getenv);
  char *value = real(name);
  precast_named(VARIABLE, CALLER, name);
  return value;
}

EXPORT time_t time(time_t *out) {
  NEXT(time_t (*)(time_t *), time);
  precast_named(CLOCK, CALLER, "time");
  return real(out);
}

EXPORT int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  NEXT(int (*)(struct timeval *, void *), gettimeofday);
  precast_named(CLOCK, CALLER, "gettimeofday");
  return real(out, zone);
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *out) {
  NEXT(int (*)(clockid_t, struct timespec *), clock_gettime);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) precast_named(CLOCK, CALLER, "clock_gettime");
  return real(clock, out);
}

EXPORT ssize_t getrandom(void *out, size_t size, unsigned flags) {
  NEXT(ssize_t (*)(void *, size_t, unsigned), getrandom);
  precast_named(RANDOM, CALLER, "getrandom");
  return real(out, size, flags);
}

EXPORT int getentropy(void *out, size_t size) {
  NEXT(int (*)(void *, size_t), getentropy);
  precast_named(RANDOM, CALLER, "getentropy");
  return real(out, size);
}

EXPORT int uname(struct utsname *out) {
  NEXT(int (*)(struct utsname *), uname);
  precast_named(HOST, CALLER, "uname");
  return real(out);
}

EXPORT int gethostname(char *out, size_t size) {
  NEXT(int (*)(char *, size_t), gethostname);
  precast_named(HOST, CALLER, "gethostname");
  return real(out, size);
}

EXPORT int sched_getaffinity(pid_t process, size_t size, cpu_set_t *out) {
  NEXT(int (*)(pid_t, size_t, cpu_set_t *), sched_getaffinity);
  precast_named(HOST, CALLER, "sched_getaffinity");
  return real(process, size, out);
}

EXPORT long sysconf(int name) {
  NEXT(long (*)(int), sysconf);
  if (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF) precast_named(HOST, CALLER, "sysconf");
  return real(name);
}

EXPORT int connect(int socket, const struct sockaddr *address, socklen_t size) {
  NEXT(int (*)(int, const struct sockaddr *, socklen_t), connect);
  if (address && size >= sizeof address->sa_family && address->sa_family != AF_UNIX)
    precast_named(NETWORK, CALLER, "connect");
  return real(socket, address, size);
}

EXPORT int getaddrinfo(const char *restrict node, const char *restrict service, const struct addrinfo *restrict hints,
                       struct addrinfo **restrict out) {
  NEXT(int (*)(const char *, const char *, const struct addrinfo *, struct addrinfo **), getaddrinfo);
  precast_named(NETWORK, CALLER, "getaddrinfo");
  return real(node, service, hints, out);
}
