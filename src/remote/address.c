/* address: strict, because a typing error would otherwise be looked up in the DNS. */
#include "remote/address.h"

#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/text.h"

#define UNIX_PREFIX "unix:"
#define PORT_MAX    65535

static int refuse(const char *text, const char *why, struct pawl_err *err)
{
    err_set(err, PAWL_EINVAL, "%s is not the address of a server: %s", text, why);
    return err_hint(err, "Write HOST:PORT, https://HOST:PORT or unix:/PATH.");
}

static bool strip(const char **rest, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(*rest, prefix, len) != 0)
        return false;
    *rest += len;
    return true;
}

static int set_host(struct address *address, const char *host, size_t len)
{
    if (len == 0 || len >= sizeof(address->host))
        return PAWL_EINVAL;
    memcpy(address->host, host, len);
    address->host[len] = '\0';
    return address->is_unix || strcspn(address->host, " /@?#[]") == len ? 0 : PAWL_EINVAL;
}

static int parse_unix(const char *text, const char *path, struct address *a, struct pawl_err *err)
{
    a->is_unix = true;
    if (strlen(path) >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return refuse(text, "the path is too long for a unix socket", err);
    if (set_host(a, path, strlen(path)) < 0)
        return refuse(text, "the path is missing", err);
    snprintf(a->text, sizeof(a->text), "%s%s", UNIX_PREFIX, a->host);
    return 0;
}

int address_parse(const char *text, struct address *ret_address, struct pawl_err *err)
{
    struct address a = {0};
    const char *rest = text;
    int64_t port;

    a.tls = strip(&rest, "https://");
    if (!a.tls)
        (void)strip(&rest, "http://");
    if (strip(&rest, UNIX_PREFIX)) {
        int rc = parse_unix(text, rest, &a, err);

        if (rc == 0)
            *ret_address = a;
        return rc;
    }
    size_t len = strcspn(rest, "/");

    if (rest[len] != '\0' && rest[len + 1] != '\0')
        return refuse(text, "there is something behind the host", err);
    bool brackets = rest[0] == '[';
    const char *end = brackets ? memchr(rest, ']', len) : memchr(rest, ':', len);

    if (brackets && end == NULL)
        return refuse(text, "a bracket is not closed", err);
    if (set_host(
            &a, rest + brackets, (size_t)((end != NULL ? end : rest + len) - rest) - brackets) < 0)
        return refuse(text, "the host is missing, or is no name", err);
    const char *colon = end != NULL ? end + brackets : rest + len;

    snprintf(a.port, sizeof(a.port), "%s", ADDRESS_PORT_DEFAULT);
    if (colon < rest + len) {
        size_t port_len = (size_t)(rest + len - colon) - 1;

        if (*colon != ':' || port_len == 0 || port_len >= sizeof(a.port))
            return refuse(text, "the port is no number", err);
        memcpy(a.port, colon + 1, port_len);
        a.port[port_len] = '\0';
        if (text_parse_int(a.port, 1, PORT_MAX, &port, NULL) < 0)
            return refuse(text, "the port is not between 1 and 65535", err);
    }
    snprintf(a.text, sizeof(a.text), brackets ? "[%s]:%s" : "%s:%s", a.host, a.port);
    *ret_address = a;
    return 0;
}
