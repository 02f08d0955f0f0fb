/*
 * Makes the flush calls of a program as slow as a cloud volume, when it is loaded first
 * (LD_PRELOAD): fsync, fdatasync, msync with MS_SYNC, and sync_file_range.
 *
 * The model is that of the log's own slow device (millrace-wal, ShapedDevice): a flush waits for
 * its turn, which the caps on operations and bytes give it without any burst, and ends no sooner
 * than the latency after its turn. Flushes overlap. Whoever flushes is charged for what its file
 * grew by since its last flush, one operation per 256 KiB and at least one.
 *
 * What favours the program: one latency is charged for a whole flush, although a file system
 * writes its journal after the data; what the kernel writes back by itself before a flush costs
 * nothing; bytes that replace others in a file are not counted; writes with O_SYNC or O_DSYNC are
 * not slowed down.
 *
 * It is C because it replaces functions of the C library, in a process that is not ours: no
 * runtime comes with it.
 *
 *   SHIM_FLUSH_MS   least time of a flush, in milliseconds; may have a fraction
 *   SHIM_IOPS       operations per second
 *   SHIM_BANDWIDTH  bytes per second
 *   SHIM_FREE_MSYNC 1: msync is counted, but neither charged nor slowed down
 *   SHIM_REPORT     a file that counts: flushes, bytes charged, nanoseconds of delay, as three
 *                   64-bit numbers in the machine's order, up to date at any time
 *
 * What is not set, or 0, does not slow down or is not reported.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OPERATION_BYTES = 256 * 1024, FILES_MAX = 65536 };
static const uint64_t SECOND_NS = 1000000000;

struct counts {
    _Atomic uint64_t flushes;
    _Atomic uint64_t bytes;
    _Atomic uint64_t delayed_ns;
};

/* A file, and its size when it was last flushed. Free where the inode is 0, which no file has. */
struct flushed {
    dev_t device;
    ino_t inode;
    uint64_t size;
};

static struct {
    uint64_t latency_ns;
    uint64_t operation_ns;
    double byte_ns;
    int msync_is_free;
} volume;

static struct counts uncounted;
static struct counts *counts = &uncounted;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Both under the lock: when all that was charged so far has been earned, and the files. */
static uint64_t earned_at;
static struct flushed files[FILES_MAX];

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_msync)(void *, size_t, int);
static int (*real_sync_file_range)(int, off64_t, off64_t, unsigned int);

static void fail(const char *what) {
    fprintf(stderr, "flush shim: %s\n", what);
    _exit(70);
}

static double number_of(const char *name) {
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') return 0;
    char *end;
    double number = strtod(text, &end);
    /* Also where it is no number at all. */
    if (*end != '\0' || !(number >= 0)) fail(name);
    return number;
}

static void *real(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (function == NULL) fail(name);
    return function;
}

static void map_report(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, sizeof(struct counts)) != 0) fail(path);
    void *mapped = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) fail(path);
    close(fd);
    counts = mapped;
}

__attribute__((constructor)) static void start(void) {
    real_fsync = (int (*)(int))real("fsync");
    real_fdatasync = (int (*)(int))real("fdatasync");
    real_msync = (int (*)(void *, size_t, int))real("msync");
    real_sync_file_range =
        (int (*)(int, off64_t, off64_t, unsigned int))real("sync_file_range");
    volume.latency_ns = (uint64_t)(number_of("SHIM_FLUSH_MS") * 1e6);
    double iops = number_of("SHIM_IOPS");
    volume.operation_ns = iops > 0 ? (uint64_t)(1e9 / iops) : 0;
    double bandwidth = number_of("SHIM_BANDWIDTH");
    volume.byte_ns = bandwidth > 0 ? 1e9 / bandwidth : 0;
    volume.msync_is_free = number_of("SHIM_FREE_MSYNC") > 0;
    const char *report = getenv("SHIM_REPORT");
    if (report != NULL && *report != '\0') map_report(report);
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* By how much a file grew since its last flush. A file that is not known is as old as the
 * program; where too many are known, growth is not told any more. */
static uint64_t growth_of(const struct stat *file) {
    uint64_t size = (uint64_t)file->st_size;
    size_t at = ((size_t)file->st_ino * 2654435761u ^ (size_t)file->st_dev) % FILES_MAX;
    for (size_t tries = 0; tries < FILES_MAX; tries++, at = (at + 1) % FILES_MAX) {
        struct flushed *known = &files[at];
        int is_free = known->inode == 0;
        if (is_free) {
            known->device = file->st_dev;
            known->inode = file->st_ino;
        } else if (known->inode != file->st_ino || known->device != file->st_dev) {
            continue;
        }
        /* A file may have been cut, or another one may have taken its inode. */
        uint64_t grown = size >= known->size ? size - known->size : size;
        known->size = size;
        return grown;
    }
    return 0;
}

/* Charges a flush that begins now; when it may end. `fd` is negative where it has no file. */
static uint64_t charge(int fd) {
    struct stat file;
    int is_file = fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
    pthread_mutex_lock(&lock);
    uint64_t bytes = is_file ? growth_of(&file) : 0;
    uint64_t operations = (bytes + OPERATION_BYTES - 1) / OPERATION_BYTES;
    if (operations == 0) operations = 1;
    uint64_t by_operations = operations * volume.operation_ns;
    uint64_t by_bytes = (uint64_t)((double)bytes * volume.byte_ns);
    uint64_t now = now_ns();
    uint64_t turn = earned_at > now ? earned_at : now;
    earned_at = turn + (by_operations > by_bytes ? by_operations : by_bytes);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&counts->flushes, 1);
    atomic_fetch_add(&counts->bytes, bytes);
    return turn + volume.latency_ns;
}

/* Hands the real call's answer on, not before its time. */
static int answer(int result, uint64_t not_before) {
    int error = errno;
    uint64_t now = now_ns();
    if (result == 0 && now < not_before) {
        struct timespec until = {
            .tv_sec = (time_t)(not_before / SECOND_NS),
            .tv_nsec = (long)(not_before % SECOND_NS),
        };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
        }
        atomic_fetch_add(&counts->delayed_ns, now_ns() - now);
    }
    errno = error;
    return result;
}

int fsync(int fd) {
    uint64_t not_before = charge(fd);
    return answer(real_fsync(fd), not_before);
}

int fdatasync(int fd) {
    uint64_t not_before = charge(fd);
    return answer(real_fdatasync(fd), not_before);
}

int msync(void *address, size_t length, int flags) {
    if ((flags & MS_SYNC) == 0) return real_msync(address, length, flags);
    if (volume.msync_is_free) {
        atomic_fetch_add(&counts->flushes, 1);
        return real_msync(address, length, flags);
    }
    uint64_t not_before = charge(-1);
    return answer(real_msync(address, length, flags), not_before);
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags) {
    uint64_t not_before = charge(fd);
    return answer(real_sync_file_range(fd, offset, length, flags), not_before);
}
