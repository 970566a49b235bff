/* secret: random bytes, base64url, SHA-256. */
#include "serve/api/secret.h"

#include <string.h>

#include <openssl/sha.h>

#include "base/rand.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void secret_make(char ret_text[SECRET_TEXT_LEN + 1])
{
    const size_t prefix = sizeof(SECRET_PREFIX) - 1;
    unsigned char bytes[SECRET_BYTES + 1] = {0}; /* one more, because 43 digits are 258 bits */

    rand_bytes(bytes, SECRET_BYTES);
    memcpy(ret_text, SECRET_PREFIX, prefix);
    for (size_t i = 0; i < SECRET_TEXT_LEN - prefix; i++) {
        size_t bit = i * 6;
        unsigned pair = (unsigned)bytes[bit / 8] << 8 | bytes[bit / 8 + 1];

        ret_text[prefix + i] = digits[pair >> (10 - bit % 8) & 63];
    }
    ret_text[SECRET_TEXT_LEN] = '\0';
}

bool secret_hash(const char *text, size_t len, unsigned char ret_hash[ACCESS_HASH_LEN])
{
    const size_t prefix = sizeof(SECRET_PREFIX) - 1;

    if (len != SECRET_TEXT_LEN || memcmp(text, SECRET_PREFIX, prefix) != 0)
        return false;
    for (size_t i = prefix; i < len; i++) {
        if (text[i] == '\0' || strchr(digits, text[i]) == NULL)
            return false;
    }
    SHA256((const unsigned char *)text, len, ret_hash);
    return true;
}
