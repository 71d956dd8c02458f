/* backend.c - see backend.h.
 *
 * The back end is a shared object beside the program, or in ../lib/memtrace/ as installed, loaded
 * when it is wanted: only then does a command pay for cudart and cuBLAS. Whether a device is there
 * is asked of the driver, which is loaded by name too, so that the program starts without one.
 * memtrace-emulated has the back end linked in, over the emulated device of the tests. */
#include "cli/backend.h"

#ifdef MT_EMULATED

bool cli_cuda_present(void) {
    return mt_cuda_devices() > 0;
}

mt_status cli_open_cuda(mt_cuda_backend *out, const mt_cuda_options *o, mt_error *err) {
    return mt_cuda_open(out, o, err);
}

#else

#include "cli/place.h"

#include <dlfcn.h>
#include <limits.h>

#define OBJECT "memtrace-cuda.so"

static bool find_object(char *path, size_t room) {
    static const char *const folders[] = { "", "/../lib/memtrace", NULL };
    return cli_place(path, room, folders, OBJECT);
}

/* Devices that the driver reports, without the back end. */
static int driver_devices(void) {
    int count = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver == NULL)
        return 0;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
    int (*ask)(int *) = (int (*)(int *))dlsym(driver, "cuDeviceGetCount");
    if (init == NULL || ask == NULL || init(0) != 0 || ask(&count) != 0)
        count = 0;
    dlclose(driver);
    return count;
}

bool cli_cuda_present(void) {
    char path[PATH_MAX];
    return find_object(path, sizeof path) && driver_devices() > 0;
}

/* The object stays loaded: cuBLAS does not like to be unloaded. */
mt_status cli_open_cuda(mt_cuda_backend *out, const mt_cuda_options *o, mt_error *err) {
    char path[PATH_MAX];
    if (!find_object(path, sizeof path))
        return mt_fail(err, MT_FAILED,
                       "--backend cuda: " OBJECT " is neither beside the program nor in "
                       "../lib/memtrace (it is built where nvcc 12.5 or newer and cuBLAS are)");
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL)
        return mt_fail(err, MT_FAILED, "--backend cuda: %.400s", dlerror());
    mt_cuda_open_fn *open = (mt_cuda_open_fn *)dlsym(object, "mt_cuda_open");
    if (open == NULL)
        return mt_fail(err, MT_FAILED, "--backend cuda: %.300s has no mt_cuda_open", path);
    return open(out, o, err);
}

#endif
