/* In place of a library: it adds its name to a file when it is loaded. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void loaded(void) {
  const char *path = getenv("STUB_TRACE");
  FILE *file = path == NULL ? NULL : fopen(path, "a");
  if (file != NULL) {
    fprintf(file, "%s\n", NAME);
    fclose(file);
  }
}
