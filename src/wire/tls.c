/*
 * tls: one SSL_CTX for a set of files. A reload makes a new one and swaps it; sessions keep the one
 * they began with by OpenSSL's reference count.
 */
#include "wire/tls.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#define PLAIN_CHUNK  (16 * 1024)
#define SUBJECT_MAX  512
#define ALPN_BOTH    "\x02h2\x08http/1.1"
#define ALPN_H2      "\x02h2"
#define CIPHERS_TLS2 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct tls {
    SSL_CTX *ctx;      /* owned */
    char *certificate; /* this and the following: of a server, for a reload */
    char *key;
    char *client_authority;
};

struct tls_session {
    SSL *ssl;
    BIO *in;  /* owned by ssl */
    BIO *out; /* owned by ssl */
    bool ready;
    char *subject;
    unsigned long error; /* OpenSSL's number of the error; 0: none */
};

static int set_tls_error(struct pawl_err *err, const char *what, const char *file)
{
    char text[256];
    unsigned long code = ERR_peek_error();

    ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    err_set(err, PAWL_EINVAL, "could not %s %s", what, file);
    return err_detail(err, "OpenSSL says: %s.", text);
}

/* h2 if the client offers it, else HTTP/1.1; without agreement the first bytes decide. */
static int alpn_cb(SSL *ssl,
                   const unsigned char **out,
                   unsigned char *out_len,
                   const unsigned char *in,
                   unsigned in_len,
                   void *data)
{
    unsigned char *chosen;

    (void)ssl;
    (void)data;
    if (SSL_select_next_proto(&chosen,
                              out_len,
                              (const unsigned char *)ALPN_BOTH,
                              sizeof(ALPN_BOTH) - 1,
                              in,
                              in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int load(const struct tls *tls, SSL_CTX *ctx, struct pawl_err *err)
{
    if (SSL_CTX_use_certificate_chain_file(ctx, tls->certificate) != 1)
        return set_tls_error(err, "read the certificate", tls->certificate);
    if (SSL_CTX_use_PrivateKey_file(ctx, tls->key, SSL_FILETYPE_PEM) != 1)
        return set_tls_error(err, "read the key", tls->key);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return set_tls_error(err, "match the certificate with the key", tls->key);
    if (tls->client_authority == NULL)
        return 0;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(tls->client_authority);
    if (names == NULL || SSL_CTX_load_verify_file(ctx, tls->client_authority) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return set_tls_error(err, "read the authority of clients", tls->client_authority);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

int tls_reload(struct tls *tls, struct pawl_err *err)
{
    ERR_clear_error();
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx == NULL)
        return err_set(err, PAWL_ENOMEM, "no memory for TLS");
    SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(
        ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_cipher_list(ctx, CIPHERS_TLS2);
    SSL_CTX_set_alpn_select_cb(ctx, alpn_cb, NULL);
    /* A resumed session would skip the check of the client's certificate against today's
     * authority. */
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(ctx, 0);
    int rc = load(tls, ctx, err);
    if (rc < 0) {
        SSL_CTX_free(ctx);
        return rc;
    }
    SSL_CTX_free(tls->ctx);
    tls->ctx = ctx;
    return 0;
}

int tls_new(const struct tls_options *options, struct tls **ret_tls, struct pawl_err *err)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    int rc = 0;

    if (tls != NULL) {
        tls->certificate = strdup(options->certificate);
        tls->key = strdup(options->key);
        if (options->client_authority != NULL)
            tls->client_authority = strdup(options->client_authority);
    }
    if (tls == NULL || tls->certificate == NULL || tls->key == NULL ||
        (options->client_authority != NULL && tls->client_authority == NULL))
        rc = err_set(err, PAWL_ENOMEM, "no memory for TLS");
    if (rc == 0)
        rc = tls_reload(tls, err);
    if (rc < 0) {
        tls_free(tls);
        return rc;
    }
    *ret_tls = tls;
    return 0;
}

/* The authorities to trust, and the certificate to show. */
static int load_client(const struct tls_client_options *options, SSL_CTX *ctx, struct pawl_err *err)
{
    const char *key = options->key != NULL ? options->key : options->certificate;

    if (options->authority != NULL && SSL_CTX_load_verify_file(ctx, options->authority) != 1)
        return set_tls_error(err, "read the authority", options->authority);
    if (options->authority == NULL && SSL_CTX_set_default_verify_paths(ctx) != 1)
        return set_tls_error(err, "find", "the authorities of this machine");
    if (options->certificate == NULL)
        return 0;
    if (SSL_CTX_use_certificate_chain_file(ctx, options->certificate) != 1)
        return set_tls_error(err, "read the certificate", options->certificate);
    if (SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) != 1)
        return set_tls_error(err, "read the key", key);
    if (SSL_CTX_check_private_key(ctx) != 1)
        return set_tls_error(err, "match the certificate with the key", key);
    return 0;
}

int tls_client_new(const struct tls_client_options *options,
                   struct tls **ret_tls,
                   struct pawl_err *err)
{
    struct tls *tls = calloc(1, sizeof(*tls));

    ERR_clear_error();
    if (tls != NULL)
        tls->ctx = SSL_CTX_new(TLS_client_method());
    if (tls == NULL || tls->ctx == NULL) {
        tls_free(tls);
        return err_set(err, PAWL_ENOMEM, "no memory for TLS");
    }
    SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_mode(tls->ctx, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_cipher_list(tls->ctx, CIPHERS_TLS2);
    SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
    int rc = load_client(options, tls->ctx, err);
    /* this function returns 0 on success */
    if (rc == 0 && SSL_CTX_set_alpn_protos(tls->ctx, (const uint8_t *)ALPN_H2, 3) != 0)
        rc = err_set(err, PAWL_ENOMEM, "no memory for TLS");
    if (rc < 0) {
        tls_free(tls);
        return rc;
    }
    *ret_tls = tls;
    return 0;
}

void tls_free(struct tls *tls)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->ctx);
    free(tls->certificate);
    free(tls->key);
    free(tls->client_authority);
    free(tls);
}

static int session_error(struct tls_session *session, int rc)
{
    int kind = SSL_get_error(session->ssl, rc);

    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE)
        return 0;
    session->error = ERR_peek_error();
    return kind == SSL_ERROR_ZERO_RETURN ? PAWL_ECONN : PAWL_EINVAL;
}

static struct tls_session *session_new(struct tls *tls)
{
    struct tls_session *session = calloc(1, sizeof(*session));

    if (session == NULL)
        return NULL;
    ERR_clear_error();
    session->ssl = SSL_new(tls->ctx);
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (session->ssl == NULL || session->in == NULL || session->out == NULL) {
        BIO_free(session->in);
        BIO_free(session->out);
        SSL_free(session->ssl);
        free(session);
        return NULL;
    }
    BIO_set_mem_eof_return(session->in, -1);
    SSL_set_bio(session->ssl, session->in, session->out);
    return session;
}

struct tls_session *tls_session_new(struct tls *tls)
{
    struct tls_session *session = session_new(tls);

    if (session != NULL)
        SSL_set_accept_state(session->ssl);
    return session;
}

struct tls_session *tls_session_connect(struct tls *tls, const char *host)
{
    struct tls_session *session = session_new(tls);

    if (session == NULL)
        return NULL;
    /* A certificate names an address or a host; only a host is sent to the server (SNI). */
    bool numeric = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session->ssl), host) == 1;
    if (!numeric && (SSL_ctrl(session->ssl,
                              SSL_CTRL_SET_TLSEXT_HOSTNAME,
                              TLSEXT_NAMETYPE_host_name,
                              (void *)(uintptr_t)host) != 1 ||
                     SSL_set1_host(session->ssl, host) != 1)) {
        tls_session_free(session);
        return NULL;
    }
    ERR_clear_error();
    SSL_set_connect_state(session->ssl);
    if (session_error(session, SSL_do_handshake(session->ssl)) < 0) {
        tls_session_free(session);
        return NULL;
    }
    return session;
}

void tls_session_free(struct tls_session *session)
{
    if (session == NULL)
        return;
    SSL_free(session->ssl);
    free(session->subject);
    free(session);
}

/* Keeps the name of the client, once. */
static int remember_subject(struct tls_session *session)
{
    X509 *certificate = SSL_get0_peer_certificate(session->ssl);

    if (certificate == NULL)
        return 0;
    session->subject = calloc(1, SUBJECT_MAX);
    BIO *text = BIO_new(BIO_s_mem());
    if (session->subject == NULL || text == NULL) {
        BIO_free(text);
        return PAWL_ENOMEM;
    }
    X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
    int len = BIO_read(text, session->subject, SUBJECT_MAX - 1);
    session->subject[len > 0 ? len : 0] = '\0';
    BIO_free(text);
    return 0;
}

int tls_session_input(struct tls_session *session,
                      const uint8_t *data,
                      size_t len,
                      int (*plain)(void *data, const uint8_t *bytes, size_t len),
                      void *plain_data)
{
    uint8_t chunk[PLAIN_CHUNK];
    int rc;

    ERR_clear_error();
    if (len > INT_MAX || BIO_write(session->in, data, (int)len) != (int)len)
        return PAWL_ENOMEM;
    if (!session->ready) {
        rc = SSL_do_handshake(session->ssl);
        if (rc != 1)
            return session_error(session, rc);
        session->ready = true;
        rc = remember_subject(session);
        if (rc == 0)
            rc = plain(plain_data, chunk, 0);
        if (rc < 0)
            return rc;
    }
    for (;;) {
        rc = SSL_read(session->ssl, chunk, sizeof(chunk));
        if (rc <= 0)
            return session_error(session, rc);
        rc = plain(plain_data, chunk, (size_t)rc);
        if (rc < 0)
            return rc;
        ERR_clear_error();
    }
}

int tls_session_output(struct tls_session *session, const void *data, size_t len)
{
    ERR_clear_error();
    if (len == 0)
        return 0;
    if (len > INT_MAX || SSL_write(session->ssl, data, (int)len) != (int)len)
        return PAWL_EINVAL;
    return 0;
}

size_t tls_session_pending(struct tls_session *session, const uint8_t **ret_data)
{
    char *data = NULL;
    long len = BIO_get_mem_data(session->out, &data);

    *ret_data = (const uint8_t *)data;
    return len > 0 ? (size_t)len : 0;
}

void tls_session_sent(struct tls_session *session)
{
    (void)BIO_reset(session->out);
}

void tls_session_close(struct tls_session *session)
{
    ERR_clear_error();
    if (session->ready)
        SSL_shutdown(session->ssl);
    ERR_clear_error();
}

void tls_session_why(const struct tls_session *session, char *text, size_t size)
{
    long verdict = SSL_get_verify_result(session->ssl);
    const char *reason = ERR_reason_error_string(session->error);

    if (verdict != X509_V_OK)
        snprintf(text,
                 size,
                 "the certificate does not hold: %s",
                 X509_verify_cert_error_string(verdict));
    else
        snprintf(
            text, size, "%s", reason != NULL ? reason : "the other side closed the connection");
}

bool tls_session_ready(const struct tls_session *session)
{
    return session->ready;
}

bool tls_session_alpn_h2(const struct tls_session *session)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(session->ssl, &name, &len);
    return len == 2 && memcmp(name, "h2", 2) == 0;
}

const char *tls_session_subject(const struct tls_session *session)
{
    return session->subject;
}
