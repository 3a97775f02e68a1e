/* In place of what CUDA's runtime has for profilers: it adds to a file that they start and stop. */
#include <stdio.h>
#include <stdlib.h>

static int told(const char *what) {
  const char *path = getenv("STUB_TRACE");
  FILE *file = path == NULL ? NULL : fopen(path, "a");
  if (file != NULL) {
    fprintf(file, "%s\n", what);
    fclose(file);
  }
  return 0;
}

int cudaProfilerStart(void) { return told("profilers start"); }

int cudaProfilerStop(void) { return told("profilers stop"); }
