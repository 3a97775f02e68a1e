/* In place of NVIDIA's driver: it answers what the environment tells it to. */
#include <stdlib.h>

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atoi(text);
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("STUB_INIT", 0);
}

int cuDriverGetVersion(int *version) {
  *version = number("STUB_CUDA", 99000);
  return 0;
}
