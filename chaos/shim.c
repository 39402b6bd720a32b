/* Faults of the disk and the clock, inside one node's process: preloaded with LD_PRELOAD.

CHAOS_FAULTS names a file of three numbers, which the harness replaces while the process runs:

    errno of every fsync (0: none)   milliseconds that every fsync takes more   seconds that the wall clock is off

The monotonic clock stays true, as that of a machine whose wall clock is set anew does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int error;
    int slow_ms;
    long shift_s;
};

static struct faults current;
static struct timespec changed;

/* The file is replaced by a rename, so what is read is whole; it is read only when it is another one. */
static struct faults *faults(void) {
    struct stat now;
    char text[64] = {0};
    const char *path = getenv("CHAOS_FAULTS");
    if (path == NULL || stat(path, &now) != 0)
        return &current;
    if (now.st_mtim.tv_sec == changed.tv_sec && now.st_mtim.tv_nsec == changed.tv_nsec)
        return &current;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return &current;
    struct faults next = {0};
    if (read(file, text, sizeof text - 1) > 0 && sscanf(text, "%d %d %ld", &next.error, &next.slow_ms, &next.shift_s) == 3) {
        current = next;
        changed = now.st_mtim;
    }
    close(file);
    return &current;
}

static int before_sync(void) {
    struct faults *now = faults();
    if (now->slow_ms > 0) {
        struct timespec pause = {now->slow_ms / 1000, (now->slow_ms % 1000) * 1000000L};
        nanosleep(&pause, NULL);
    }
    if (now->error != 0) {
        errno = now->error;
        return -1;
    }
    return 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int fsync(int file) { return before_sync() != 0 ? -1 : NEXT(fsync)(file); }

int fdatasync(int file) { return before_sync() != 0 ? -1 : NEXT(fdatasync)(file); }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = NEXT(clock_gettime)(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += faults()->shift_s;
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int result = NEXT(gettimeofday)(now, zone);
    if (result == 0)
        now->tv_sec += faults()->shift_s;
    return result;
}

time_t time(time_t *result) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result != NULL)
        *result = now.tv_sec;
    return now.tv_sec;
}
