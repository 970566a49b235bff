/* fuzz_target: one input of any bytes for everything that parses bytes from outside. The first byte chooses what they
 * are. Ends the process on a wrong answer; memory errors are the sanitizers' business. */
#ifndef TESTS_SERVE_FUZZ_TARGET_H
#define TESTS_SERVE_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

enum fuzz_kind { FUZZ_FRAMES, FUZZ_GZIP, FUZZ_MESSAGE, FUZZ_CONNECTION, FUZZ_TEXTS, FUZZ_KINDS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the server that FUZZ_CONNECTION talks to, so that leaks are seen. */
void fuzz_end(void);

#endif
