/* h2: HTTP/2 on one connection, by nghttp2: calls (gRPC) and plain requests as streams. Loop's
 * thread. */
#ifndef SERVE_HTTP_H2_H
#define SERVE_HTTP_H2_H

#include "serve/http/http.h"

struct peer;

int h2_attach(struct peer *peer, struct http *http) MUST_CHECK;

#endif
