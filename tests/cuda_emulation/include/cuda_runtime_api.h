/* cuda_runtime_api.h - the name under which C code finds the runtime. */
#include <cuda_runtime.h>
