/* nvToolsExt.h - named ranges, recorded so that tests can read them. */
#ifndef MT_EMULATION_NVTOOLSEXT_H
#define MT_EMULATION_NVTOOLSEXT_H

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns the range's depth (0 the outermost), or a negative number. */
int nvtxRangePushA(const char *message);
int nvtxRangePop(void);

#define nvtxRangePush nvtxRangePushA

#ifdef __cplusplus
}
#endif

#endif
