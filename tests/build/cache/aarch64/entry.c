/* A variant's host library, as an aarch64 machine would link it. Made into entry.so and runtime.so by `make`. */
#ifdef RUNTIME
int precast_test_runtime(int value) { return 2 * value; }
#else
extern int precast_test_runtime(int);
int __tvm_ffi_scale(void *self, const void *arguments, int count, void *result) {
  (void)self, (void)arguments, (void)result;
  return precast_test_runtime(count);
}
#endif
