/*
 * tls: OpenSSL without its sockets. A session takes bytes from the network and gives plain ones, and the other way
 * round, through memory; the loop does the reading and writing. TLS 1.2 or newer, ALPN for HTTP/2 and HTTP/1.1, a
 * certificate of the client where an authority is given. Both ends: a server's certificates, and a client that checks
 * them. Loop's thread.
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
    const char *
        client_authority; /* clients must show a certificate of this authority; NULL: they need none */
};

int tls_new(const struct tls_options *options,
            struct tls **ret_tls,
            struct pawl_err *err) MUST_CHECK;
/* Sessions that exist go on. */
void tls_free(struct tls *tls);
/* Reads the files again. New connections get what was read; on failure everything stays as it was. */
int tls_reload(struct tls *tls, struct pawl_err *err) MUST_CHECK;

/* For connecting. Names of PEM files, copied; all may be NULL. */
struct tls_client_options {
    const char *
        authority; /* the server's certificate must be of this one; NULL: of one the machine trusts */
    const char *certificate; /* shown to the server, with its chain; NULL: none */
    const char *key;         /* of that; NULL: it is in the same file */
};

int tls_client_new(const struct tls_client_options *options,
                   struct tls **ret_tls,
                   struct pawl_err *err) MUST_CHECK;

/* NULL: no memory. */
struct tls_session *tls_session_new(struct tls *tls) MUST_CHECK;
/* The client's side of one. host: the name or address its certificate must be for. The first words are in pending. */
struct tls_session *tls_session_connect(struct tls *tls, const char *host) MUST_CHECK;
/* Why it failed, in OpenSSL's words or in ours; never empty. After an error of tls_session_input. */
void tls_session_why(const struct tls_session *session, char *text, size_t size);
void tls_session_free(struct tls_session *session);

/*
 * Bytes from the network; calls plain for what they come to, at least once when the handshake is over. A negative code
 * from plain, or PAWL_EINVAL for what is not TLS or not allowed: the connection is to be closed, after what
 * tls_session_pending has was sent. PAWL_ECONN: the client closed it.
 */
int tls_session_input(struct tls_session *session,
                      const uint8_t *data,
                      size_t len,
                      int (*plain)(void *data, const uint8_t *bytes, size_t len),
                      void *plain_data) MUST_CHECK;
/* Encrypts. Only once the handshake is over. */
int tls_session_output(struct tls_session *session, const void *data, size_t len) MUST_CHECK;
/* What has to go to the network, and that it has gone. */
size_t tls_session_pending(struct tls_session *session, const uint8_t **ret_data);
void tls_session_sent(struct tls_session *session);
void tls_session_close(struct tls_session *session); /* says goodbye, into pending */

bool tls_session_ready(const struct tls_session *session);
bool tls_session_alpn_h2(const struct tls_session *session);
/* Subject of the client's certificate, or NULL. Lives as long as the session. */
const char *tls_session_subject(const struct tls_session *session);

#endif
