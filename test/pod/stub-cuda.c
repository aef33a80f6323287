/* Stub NVRTC and driver for the smoke test: every answer can be varied by a line "name=number" in the file CONFIG.
 * "fail=<function>" makes that function answer 999. Build with -DNVRTC or -DDRIVER. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int setting(const char *name, int otherwise) {
  FILE *file = fopen(CONFIG, "r");
  char line[200];
  int value = otherwise;
  size_t length = strlen(name);
  while (file && fgets(line, sizeof line, file))
    if (!strncmp(line, name, length) && line[length] == '=') value = atoi(line + length + 1);
  if (file) fclose(file);
  return value;
}

static int fails(const char *function) {
  FILE *file = fopen(CONFIG, "r");
  char line[200], wanted[200];
  int found = 0;
  snprintf(wanted, sizeof wanted, "fail=%s\n", function);
  while (file && fgets(line, sizeof line, file)) found |= !strcmp(line, wanted);
  if (file) fclose(file);
  return found ? 999 : 0;
}

#define MAY_FAIL if (fails(__func__)) return 999

#ifdef NVRTC
static const char *source;
int nvrtcVersion(int *major, int *minor) { MAY_FAIL; *major = setting("nvrtc_major", 12); *minor = setting("nvrtc_minor", 8); return 0; }
int nvrtcCreateProgram(void **program, const char *text, const char *name, int headers, void *a, void *b) { MAY_FAIL; source = text; *program = &source; return 0; }
int nvrtcCompileProgram(void *program, int count, const char **options) {
  MAY_FAIL;
  if (setting("crash", 0)) abort();
  return program != &source || count != 1 || strcmp(options[0], "--gpu-architecture=compute_89");
}
int nvrtcGetPTXSize(void *program, size_t *size) { MAY_FAIL; *size = setting("ptx", 1) ? 8 : 1; return 0; }
int nvrtcGetPTX(void *program, char *ptx) { MAY_FAIL; strcpy(ptx, setting("ptx", 1) == 1 ? "the ptx" : ""); return 0; }
#endif

#ifdef DRIVER
static int context, module, function, current, loaded, launched;
int cuInit(unsigned flags) { MAY_FAIL; return 0; }
int cuDriverGetVersion(int *version) { MAY_FAIL; *version = setting("driver", 12080); return 0; }
int cuDeviceGetCount(int *count) { MAY_FAIL; *count = setting("count", 1); return 0; }
int cuDeviceGet(int *device, int ordinal) { MAY_FAIL; *device = 7; return ordinal; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { MAY_FAIL; *value = attribute == 75 ? 8 : attribute == 76 ? 9 : -1; return device != 7; }
int cuDevicePrimaryCtxRetain(void **result, int device) { MAY_FAIL; *result = &context; return device != 7; }
int cuCtxSetCurrent(void *which) { MAY_FAIL; current = which == &context; return !current; }
int cuModuleLoadData(void **result, const char *ptx) { MAY_FAIL; *result = &module; loaded = !strcmp(ptx, "the ptx"); return !current || !loaded; }
int cuModuleGetFunction(void **result, void *from, const char *name) { MAY_FAIL; *result = &function; return from != &module || strcmp(name, "gate_smoke"); }
int cuMemAlloc_v2(uint64_t *address, size_t size) { MAY_FAIL; *address = (uint64_t)(uintptr_t)malloc(size); *(int *)(uintptr_t)*address = 42; return size != 4; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { MAY_FAIL; memcpy((void *)(uintptr_t)to, from, size); return 0; }
int cuLaunchKernel(void *which, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e, unsigned f, unsigned shared, void *stream, void **parameters, void **extra) {
  MAY_FAIL;
  launched = which == &function && a * b * c * d * e * f == 1;
  if (setting("runs", 1)) *(int *)(uintptr_t)*(uint64_t *)parameters[0] = setting("answer", 42);
  return !launched;
}
int cuCtxSynchronize(void) { MAY_FAIL; return !launched; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { MAY_FAIL; memcpy(to, (void *)(uintptr_t)from, size); return 0; }
#endif
