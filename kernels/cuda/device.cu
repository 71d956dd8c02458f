/* device.cu - opens and closes the CUDA back end: context, stream, cuBLAS handle, and the table of
 * kernels. What each step takes of the device's memory is noted. */
#include "kernels/cuda/state.h"

#include <stdlib.h>
#include <string.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#else
static int nvtxRangePushA(const char *) {
    return 0;
}
static int nvtxRangePop(void) {
    return 0;
}
#endif

/* ---- notes ----------------------------------------------------------------------------------- */

mt_status mt_cuda_used(mt_cuda *c, uint64_t *used, mt_error *err) {
    size_t free_bytes = 0, total = 0;
    (void)c;
    MT_CUDA_TRY(err, 0, cudaMemGetInfo(&free_bytes, &total));
    *used = total - free_bytes;
    return MT_OK;
}

void mt_cuda_add_note(mt_cuda *c, const char *what, uint64_t before, uint64_t after) {
    uint32_t i = 0;
    while (i < c->noted && strcmp(c->notes[i].what, what) != 0)
        i++;
    if (i == MT_CUDA_NOTES)
        return;
    mt_cuda_note *n = &c->notes[i];
    if (i == c->noted) {
        *n = {};
        snprintf(n->what, sizeof n->what, "%s", what);
        c->noted++;
    }
    if (n->calls == 0)
        n->bytes = (int64_t)(after - before);
    else
        n->again += (int64_t)(after - before);
    n->calls++;
}

/* ---- the rest of the table ------------------------------------------------------------------- */

static void range_begin(mt_device *, const char *name) {
    nvtxRangePushA(name);
}

static void range_end(mt_device *) {
    nvtxRangePop();
}

/* Forgets the first failure once it is told. */
static mt_status report(mt_cuda *c, mt_error *err) {
    mt_status status = c->device.failure.status;
    if (status != MT_OK)
        mt_fail(err, status, "%s", c->device.failure.text);
    c->device.failure = {};
    return status;
}

static mt_status device_sync(mt_device *d, mt_error *err) {
    mt_cuda *c = (mt_cuda *)d;
    MT_CUDA_NOTE(c, 0, cudaStreamSynchronize(c->stream));
    if (*c->bad_row != 0) {
        mt_fail(mt_cuda_slot(c), MT_BAD, "cuda: embed: row %u has an id outside the vocabulary",
                *c->bad_row - 1);
        *c->bad_row = 0;
    }
    return report(c, err);
}

/* Closing goes on when a call fails; the first failure goes to options.late. */
static void device_close(mt_device *d) {
    mt_cuda *c = (mt_cuda *)d;
    mt_error *late = c->options.late;
    c->device.failure = {};
    if (c->stream != NULL)
        MT_CUDA_NOTE(c, 0, cudaStreamSynchronize(c->stream));
    mt_cuda_drop_graph(c);
    mt_cuda_drop_events(c);
    if (c->blas != NULL)
        MT_CUDA_NOTE(c, 0, cublasDestroy(c->blas));
    if (c->stream != NULL)
        MT_CUDA_NOTE(c, 0, cudaStreamDestroy(c->stream));
    if (c->bad_row != NULL)
        MT_CUDA_NOTE(c, sizeof *c->bad_row, cudaFreeHost(c->bad_row));
    if (late != NULL && late->status == MT_OK && mt_cuda_failed(c))
        *late = c->device.failure;
    free(c);
}

static void fill_table(mt_device *d) {
    d->name = "cuda";
    d->computes = true;
    d->copy_in = mt_cuda_copy_in;
    d->copy_out = mt_cuda_copy_out;
    d->copy_rows = mt_cuda_copy_rows;
    d->zero = mt_cuda_zero;
    d->embed = mt_cuda_embed;
    d->layernorm = mt_cuda_layernorm;
    d->linear = mt_cuda_linear;
    d->kv_write = mt_cuda_kv_write;
    d->attention = mt_cuda_attention;
    d->argmax = mt_cuda_argmax;
    d->sync = device_sync;
    d->close = device_close;
    d->use_workspace = mt_cuda_use_workspace;
    d->read = mt_cuda_read;
    d->nothing = mt_cuda_nothing;
    d->stamp = mt_cuda_stamp;
    d->stamps = mt_cuda_stamps;
    d->range_begin = range_begin;
    d->range_end = range_end;
    d->record = mt_cuda_record;
    d->record_end = mt_cuda_record_end;
    d->replay = mt_cuda_replay;
}

/* ---- opening --------------------------------------------------------------------------------- */

int mt_cuda_devices(void) {
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/* "cuda, NVIDIA A40, sm_86, driver 12.4, cuBLAS 12.4.5" */
static mt_status describe(mt_cuda *c, mt_error *err) {
    cudaDeviceProp p;
    int driver = 0, blas = 0;
    MT_CUDA_TRY(err, 0, cudaGetDeviceProperties(&p, 0));
    MT_CUDA_TRY(err, 0, cudaDriverGetVersion(&driver));
    MT_CUDA_TRY(err, 0, cublasGetVersion(c->blas, &blas));
    c->major = p.major;
    c->minor = p.minor;
    c->total = p.totalGlobalMem;
    snprintf(c->device.description, sizeof c->device.description,
             "cuda, %.60s, sm_%d%d, driver %d.%d, cuBLAS %d%s", p.name, p.major, p.minor,
             driver / 1000, driver % 1000 / 10, blas, c->options.tf32 ? ", TF32" : "");
    return MT_OK;
}

static mt_status open_context(mt_cuda *c, mt_error *err) {
    int count = 0;
    uint64_t used = 0;
    MT_CUDA_TRY(err, 0, cudaGetDeviceCount(&count));
    if (count == 0)
        return mt_fail(err, MT_FAILED, "cuda: cudaGetDeviceCount: the driver reports no device");
    MT_CUDA_TRY(err, 0, cudaSetDevice(0));
    MT_TRY(mt_cuda_used(c, &used, err));
    mt_cuda_add_note(c, "context", 0, used);
    MT_CUDA_TRY(err, 0, cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    MT_CUDA_TRY(err, sizeof *c->bad_row,
                cudaHostAlloc(&c->bad_row, sizeof *c->bad_row, cudaHostAllocMapped));
    *c->bad_row = 0;
    return MT_OK;
}

static mt_status open_blas(mt_cuda *c, mt_error *err) {
    uint64_t before = 0, after = 0;
    MT_TRY(mt_cuda_used(c, &before, err));
    MT_CUDA_TRY(err, 0, cublasCreate(&c->blas));
    MT_TRY(mt_cuda_used(c, &after, err));
    mt_cuda_add_note(c, "cublasCreate", before, after);
    return mt_cuda_bind(c, err);
}

static mt_status open_device(mt_cuda *c, mt_source **source, mt_error *err) {
    MT_TRY(open_context(c, err));
    MT_TRY(open_blas(c, err));
    MT_TRY(describe(c, err));
    return mt_cuda_source(source, c, err);
}

extern "C" mt_status mt_cuda_open(mt_cuda_backend *out, const mt_cuda_options *o, mt_error *err) {
    if (o->block % 32 != 0 || o->block > 1024)
        return mt_fail(err, MT_BAD, "cuda: blocks of %u threads: expected a multiple of 32 to 1024",
                       o->block);
    mt_cuda *c = (mt_cuda *)calloc(1, sizeof *c);
    if (c == NULL)
        return mt_no_memory(err, "a device");
    c->options = *o;
    fill_table(&c->device);
    mt_source *source = NULL;
    mt_status status = open_device(c, &source, err);
    if (status != MT_OK) {
        c->device.close(&c->device);
        return status;
    }
    *out = {};
    out->device = &c->device;
    out->source = source;
    out->total = c->total;
    out->major = c->major;
    out->minor = c->minor;
    out->notes = c->notes;
    out->noted = &c->noted;
    return MT_OK;
}
