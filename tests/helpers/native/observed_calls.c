// Makes calls that the observer's library notes, and prints the events: a letter, and a text.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (1 << 22)
#define EXPECT(condition)                                                                                              \
  if (!(condition)) return fprintf(stderr, "line %d: %s\n", __LINE__, #condition), 1

struct event {
  uint32_t size, complete;
  int32_t process, parent;
  uint32_t origin;
  uint8_t kind, failed, program, padding;
  uint64_t caller;
  int64_t stamp[4];
  uint32_t length, more_padding;
  char text[];
};

static void *many(void *folder) {
  char name[64];
  for (int i = 0; i < 2000; i++) snprintf(name, sizeof name, "/nowhere/%d", i), access(name, F_OK);
  return folder;
}

static int calls(void) {
  struct stat facts;
  char link[64], kept[4096];
  const char *preload = getenv("LD_PRELOAD");
  EXPECT(!preload || !strstr(preload, "observer.so"));
  snprintf(kept, sizeof kept, preload ? "LD_PRELOAD=%s" : "B=", preload); // a sanitizer must be first everywhere
  EXPECT(open("absent", O_RDONLY) < 0);
  int file = open("made", O_RDWR | O_CREAT, 0640);
  EXPECT(file >= 0 && !fstat(file, &facts) && (facts.st_mode & 0777) == 0640);
  EXPECT(write(file, "1", 1) == 1 && !close(file));
  FILE *stream = fopen("./made", "r");
  EXPECT(stream && fgetc(stream) == '1' && !fclose(stream));
  EXPECT(!stat("made", &facts) && facts.st_size == 1);
  EXPECT(access("absent", F_OK) < 0 && readlink("made", link, sizeof link) < 0);
  EXPECT(!mkdir("folder", 0700));
  DIR *folder = opendir("folder");
  EXPECT(folder);
  int inside = openat(dirfd(folder), "../made", O_RDONLY);
  EXPECT(inside >= 0);
  close(inside), closedir(folder);
  EXPECT(!rename("made", "made2") && !unlink("made2") && !rmdir("folder"));
  EXPECT(WEXITSTATUS(system("exit 7")) == 7 && system(NULL));
  FILE *pipe = popen("echo $0 here", "r");
  EXPECT(pipe && fscanf(pipe, "sh %63s", link) == 1 && !strcmp(link, "here") && !pclose(pipe));
  pid_t process = fork();
  if (!process) execl("/bin/sh", "sh", "-c", "exit $A", (char *)NULL);
  int status;
  EXPECT(waitpid(process, &status, 0) == process && WEXITSTATUS(status) == 0);
  if (!(process = fork())) execle("/bin/sh", "sh", "-c", "exit $A", (char *)NULL, (char *[]){"A=5", kept, NULL});
  EXPECT(waitpid(process, &status, 0) == process && WEXITSTATUS(status) == 5);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) EXPECT(!pthread_create(&threads[i], NULL, many, NULL));
  for (int i = 0; i < 4; i++) EXPECT(!pthread_join(threads[i], NULL));
  return 0;
}

int main(int count, char **words) {
  int (*set)(int, const char *, const char *) = dlsym(RTLD_DEFAULT, "precast_observer_log");
  int file = memfd_create("log", MFD_CLOEXEC);
  uint64_t header[5] = {0x707265636f627331u, sizeof header, 0, SIZE, 0};
  char location[64];
  EXPECT(count == 2 && set && !chdir(words[1]) && !ftruncate(file, SIZE));
  EXPECT(pwrite(file, header, sizeof header, 0) == sizeof header);
  snprintf(location, sizeof location, "/proc/%d/fd/%d", getpid(), file);
  EXPECT(!set(file, location, "/nowhere"));
  if (calls()) return 1;
  char *log = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file, 0);
  uint64_t end = ((uint64_t *)log)[1], at = sizeof header;
  EXPECT(((uint64_t *)log)[2] == 0);
  while (at < end) {
    struct event *event = (struct event *)(log + at);
    EXPECT(event->complete && event->size);
    printf("%c %.*s\n", event->kind, (int)event->length, event->text);
    at += event->size;
  }
  return 0;
}
