/* torch_summary.h - PyTorch's own view of the torch policy: its memory summary, and every counter
 * of memory_stats under its own key. */
#ifndef MT_REPORTS_TORCH_SUMMARY_H
#define MT_REPORTS_TORCH_SUMMARY_H

#include <stdio.h>

#include "alloc/torch/torch.h"

/* The table of torch.cuda.memory_summary(device=0), the same rows, columns and units. */
void mt_torch_summary(FILE *out, const mt_torch_stats *s);

/* "key value" lines, sorted by key, as memory_stats() flattens them. */
void mt_torch_statistics(FILE *out, const mt_torch_stats *s);

#endif
