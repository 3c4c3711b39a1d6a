/* A CUDA driver without a GPU: it answers what Numba and the bindings ask, and runs no kernel.

   launches_null_driver.py compiles it, and times what a launch takes the host beside it. It counts launches, and keeps
   where the first array of the last one lies (an array's fifth number), so that a launch which hands over something else
   is noticed. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef uint64_t Word;

enum { OK = 0, NOT_FOUND = 500 };
enum { FIRST_ADDRESS = 4 };

static char thing[64]; /* the context, and every stream */
static Word code_handles = 4096;
static Word launches, first_address;

Word null_launches(void) { return launches; }
Word null_first_address(void) { return first_address; }

static Result launched(void **arguments) {
    launches++;
    first_address = *(Word *)arguments[FIRST_ADDRESS];
    return OK;
}

Result cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, void *stream, void **arguments, void **extra) {
    return launched(arguments);
}

static Result launch_by_configuration(const void *configuration, void *function, void **arguments, void **extra) {
    return launched(arguments);
}

/* What has one kind of answer shares a function. */
static Result succeed(void) { return OK; }
static Result give_handle(void **handle) { *handle = thing; return OK; }
static Result give_code(void **handle) { *handle = (void *)(code_handles += 64); return OK; } /* each another one */
static Result give_zero(int *number) { *number = 0; return OK; }
static Result give_one(int *number) { *number = 1; return OK; }
static Result give_version(int *number) { *number = 13000; return OK; }
static Result give_context_version(void *context, unsigned *number) { *number = 13000; return OK; }
static Result give_id(void *context, Word *id) { *id = 1; return OK; }
static Result give_device(int *device, int ordinal) { *device = 0; return OK; }
static Result give_name(char *name, int length, int device) { strncpy(name, "no device", length); return OK; }
static Result give_uuid(char *uuid, int device) { memset(uuid, 1, 16); return OK; }
static Result give_total(size_t *bytes, int device) { *bytes = (size_t)1 << 34; return OK; }
static Result give_memory(size_t *free, size_t *total) { *free = *total = (size_t)1 << 34; return OK; }
static Result give_state(int device, unsigned *flags, int *active) { *flags = 0; *active = 1; return OK; }
static Result allocate(Word *address, size_t bytes) { *address = (Word)malloc(bytes); return OK; }
static Result give_error(Result result, const char **text) { *text = "NULL_DRIVER"; return OK; }
static Result give_number_of(void *thing, int *number) { *number = 0; return OK; }
static Result give_kernel_attribute(int *value, int attribute, void *kernel, int device) {
    *value = attribute == 0 ? 1024 : 0; /* threads a block */
    return OK;
}
static Result refuse_parameter(void *kernel, size_t index, size_t *offset, size_t *size) { return NOT_FOUND; }

static Result give_attribute(int *value, int attribute, int device) {
    switch (attribute) { /* of an H100 */
        case 1: *value = 1024; break;  /* threads a block */
        case 8: *value = 49152; break; /* bytes of shared memory a block */
        case 10: *value = 32; break;   /* threads a warp */
        case 16: *value = 132; break;  /* multiprocessors */
        case 75: *value = 9; break;    /* compute capability */
        case 76: *value = 0; break;
        default: *value = 1;
    }
    return OK;
}

static Result about_pointer(void *data, int attribute, Word pointer) {
    switch (attribute) {
        case 1: *(void **)data = thing; break; /* its context */
        case 2: *(int *)data = 2; break;       /* memory of a device */
        case 3: case 4: *(Word *)data = pointer; break;
        default: *(int *)data = 0;
    }
    return OK;
}

Result cuInit(unsigned flags) { return OK; }
Result cuDriverGetVersion(int *version) { return give_version(version); }

static const struct { const char *name; void *function; } entries[] = {
    {"cuInit", cuInit}, {"cuDriverGetVersion", cuDriverGetVersion}, {"cuDeviceGetCount", give_one},
    {"cuDeviceGet", give_device}, {"cuDeviceGetName", give_name}, {"cuDeviceGetUuid", give_uuid},
    {"cuDeviceTotalMem", give_total}, {"cuDeviceGetAttribute", give_attribute},
    {"cuDevicePrimaryCtxRetain", give_handle}, {"cuDevicePrimaryCtxGetState", give_state},
    {"cuCtxGetCurrent", give_handle}, {"cuCtxPopCurrent", give_handle}, {"cuCtxGetDevice", give_zero},
    {"cuCtxGetApiVersion", give_context_version}, {"cuCtxGetId", give_id}, {"cuMemGetInfo", give_memory},
    {"cuMemAlloc", allocate}, {"cuLibraryLoadData", give_code}, {"cuLibraryGetKernel", give_code},
    {"cuLibraryGetModule", give_code}, {"cuKernelGetFunction", give_code},
    {"cuKernelGetAttribute", give_kernel_attribute}, {"cuFuncGetAttribute", give_kernel_attribute},
    {"cuKernelGetParamInfo", refuse_parameter}, {"cuModuleLoadData", give_code}, {"cuModuleLoadDataEx", give_code},
    {"cuModuleGetFunction", give_code}, {"cuStreamCreate", give_handle},
    {"cuStreamCreateWithPriority", give_handle}, {"cuStreamIsCapturing", give_number_of},
    {"cuStreamGetCaptureInfo", give_number_of}, {"cuStreamGetFlags", give_number_of},
    {"cuStreamGetPriority", give_number_of}, {"cuPointerGetAttribute", about_pointer},
    {"cuLaunchKernel", cuLaunchKernel}, {"cuLaunchKernelEx", launch_by_configuration},
    {"cuGetErrorString", give_error}, {"cuGetErrorName", give_error},
};

Result cuGetProcAddress_v2(const char *name, void **function, int version, Word flags, int *status) {
    *function = strcmp(name, "cuGetProcAddress") == 0 ? (void *)cuGetProcAddress_v2 : (void *)succeed;
    for (size_t k = 0; k < sizeof entries / sizeof *entries; k++)
        if (strcmp(entries[k].name, name) == 0) *function = entries[k].function;
    if (status) *status = 0;
    return OK;
}

Result cuGetProcAddress(const char *name, void **function, int version, Word flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
