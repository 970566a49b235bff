/*
 * tls: OpenSSL without sockets. A session takes encrypted bytes and gives plain ones, and the other
 * way round, through memory; wire/io.h reads and writes. TLS 1.2 or newer, ALPN for HTTP/2 and
 * HTTP/1.1, a client certificate where an authority is given. Both ends: a server with its
 * certificates, and a client that checks them. Loop's thread.
 */
#ifndef WIRE_TLS_H
#define WIRE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct tls;         /* certificates: one for a listener, or shared */
struct tls_session; /* one connection */

/* Names of PEM files. Copied. */
struct tls_options {
    const char *certificate; /* with its chain */
    const char *key;
    const char
        *client_authority; /* clients must show a certificate of this authority; NULL: none */
};

int tls_new(const struct tls_options *options,
            struct tls **ret_tls,
            struct pawl_err *err) MUST_CHECK;
/* Existing sessions go on. */
void tls_free(struct tls *tls);
/* Reads the files again. New connections get the new certificates; on failure nothing changes. */
int tls_reload(struct tls *tls, struct pawl_err *err) MUST_CHECK;

/* For a client. Names of PEM files, copied; all may be NULL. */
struct tls_client_options {
    const char *authority;   /* signs the server's certificate; NULL: one that the machine trusts */
    const char *certificate; /* shown to the server, with its chain; NULL: none */
    const char *key;         /* of the certificate; NULL: in the same file */
};

int tls_client_new(const struct tls_client_options *options,
                   struct tls **ret_tls,
                   struct pawl_err *err) MUST_CHECK;

/* NULL: no memory. */
struct tls_session *tls_session_new(struct tls *tls) MUST_CHECK;
/* The client's end. host: the name or address in the server's certificate. tls_session_pending
 * has the first bytes. */
struct tls_session *tls_session_connect(struct tls *tls, const char *host) MUST_CHECK;
/* Why tls_session_input failed, in OpenSSL's words or in ours; never empty. */
void tls_session_why(const struct tls_session *session, char *text, size_t size);
void tls_session_free(struct tls_session *session);

/*
 * Takes bytes from the network and calls plain with the decrypted ones, at least once when the
 * handshake is over. A negative code from plain, or PAWL_EINVAL for bytes that are not TLS or not
 * allowed: the connection is to be closed after tls_session_pending was sent. PAWL_ECONN: the other
 * end closed.
 */
int tls_session_input(struct tls_session *session,
                      const uint8_t *data,
                      size_t len,
                      int (*plain)(void *data, const uint8_t *bytes, size_t len),
                      void *plain_data) MUST_CHECK;
/* Encrypts. Only after the handshake. */
int tls_session_output(struct tls_session *session, const void *data, size_t len) MUST_CHECK;
/* The bytes that have to go to the network, and that they have gone. */
size_t tls_session_pending(struct tls_session *session, const uint8_t **ret_data);
void tls_session_sent(struct tls_session *session);
void tls_session_close(struct tls_session *session); /* adds the closing alert to pending */

bool tls_session_ready(const struct tls_session *session);
bool tls_session_alpn_h2(const struct tls_session *session);
/* Subject of the client's certificate, or NULL. Lives as long as the session. */
const char *tls_session_subject(const struct tls_session *session);

#endif
