/* backend.h - how the program comes by its CUDA back end. */
#ifndef MT_CLI_BACKEND_H
#define MT_CLI_BACKEND_H

#include "kernels/cuda/backend.h"

/* Whether a CUDA device is there and the back end was built. Takes a moment the first time. */
bool cli_cuda_present(void);

/* Opens the back end; a line that says what is missing when it cannot. */
mt_status cli_open_cuda(mt_cuda_backend *out, const mt_cuda_options *o, mt_error *err);

#endif
