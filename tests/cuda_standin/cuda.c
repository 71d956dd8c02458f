/* cuda.c - as much of the driver as a program asks that wants to know whether a device is there.
 * See standin.h. */
int cuInit(unsigned flags);
int cuInit(unsigned flags) {
    (void)flags;
    return 0;
}

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count) {
    *count = 1;
    return 0;
}
