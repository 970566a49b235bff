/* h1: HTTP/1.1 on one connection, by http_parser: plain requests in order. Loop's thread. */
#ifndef SERVE_HTTP_H1_H
#define SERVE_HTTP_H1_H

#include "serve/http/http.h"

struct peer;

int h1_attach(struct peer *peer, struct http *http) MUST_CHECK;

#endif
