/* In place of the profiler functions of CUDA's runtime: it logs to a file that profilers start and stop. */
#include <stdio.h>
#include <stdlib.h>

static int logged(const char *what) {
  const char *path = getenv("STUB_TRACE");
  FILE *file = path == NULL ? NULL : fopen(path, "a");
  if (file != NULL) {
    fprintf(file, "%s\n", what);
    fclose(file);
  }
  return 0;
}

int cudaProfilerStart(void) { return logged("profilers start"); }

int cudaProfilerStop(void) { return logged("profilers stop"); }
