/*
 * secret: the text of an access token, and the hash by which the server knows it. 256 random bits
 * behind a prefix that makes a leaked token easy to find: pawl_ and 43 characters of base64url. Any
 * thread.
 */
#ifndef SERVE_API_SECRET_H
#define SERVE_API_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "store/access.h"

#define SECRET_PREFIX   "pawl_"
#define SECRET_BYTES    32
#define SECRET_TEXT_LEN 48

void secret_make(char ret_text[SECRET_TEXT_LEN + 1]);

/* False: the text cannot be a token. Checks the form only. */
bool secret_hash(const char *text, size_t len, unsigned char ret_hash[ACCESS_HASH_LEN]);

#endif
