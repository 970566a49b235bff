/*
 * conn with connections that end at every byte of their life: after each byte that the server said, and after
 * each that the client said, by a reset and by an orderly end. What a real server says is recorded
 * first and then played back, because thousands of connections are needed. The process lives through
 * all of them, tells every batch once how it ended, leaves no descriptor open, and works at the end.
 */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "conn_proxy.h"

#define SYNCS_MAX 16

enum side { CLIENT, SERVER };

enum how { RESET, ORDERLY };

static const struct stmt session = {
    7, "session", "SELECT set_config('application_name', 'reset', $1)"};
static const struct stmt work = {8, "work", "INSERT INTO t VALUES ($1) RETURNING id"};

struct player;

struct scene {
    struct player *player;
    uv_tcp_t client;
    size_t n_said[2]; /* by the client, by us */
    size_t left;      /* bytes of it still to come */
    unsigned char head[5];
    size_t n_head;
    bool started; /* past the startup packet */
    size_t n_syncs;
    bool over;
};

/* Plays the server. */
struct player {
    struct fixture *f;
    uv_tcp_t listener;
    const char *record;
    size_t ends[SYNCS_MAX]; /* where the answer to the startup ends, to the first sync, … */
    size_t n_ends;
    size_t n_bytes[2]; /* of both sides, until the last answer */
    size_t cut_at;     /* bytes of that side; SIZE_MAX: never */
    enum side side;
    enum how how;
    size_t accepted;
    size_t cuts;
    char chunk[PROXY_CHUNK];
};

static void scene_closed_cb(uv_handle_t *handle)
{
    free(handle->data);
}

static void scene_close(struct scene *scene)
{
    if (!uv_is_closing((uv_handle_t *)&scene->client))
        uv_close((uv_handle_t *)&scene->client, scene_closed_cb);
}

static void scene_cut(struct scene *scene)
{
    struct player *player = scene->player;
    int fd;

    scene->over = true;
    player->cuts++;
    assert_int_equal(uv_fileno((uv_handle_t *)&scene->client, &fd), 0);
    if (player->how == RESET) {
        struct linger linger = {.l_onoff = 1};

        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        scene_close(scene);
        return;
    }
    shutdown(fd, SHUT_WR); /* and it is read until the client has closed, or it would be a reset */
}

/* Answers with that part of the record, as far as it may. */
static void scene_say(struct scene *scene, size_t from, size_t to)
{
    const struct player *player = scene->player;
    size_t limit = player->side == SERVER ? player->cut_at : SIZE_MAX;
    size_t n = to - from;

    if (limit - scene->n_said[SERVER] < n)
        n = limit - scene->n_said[SERVER];
    if (n > 0) {
        uv_buf_t out = uv_buf_init((char *)(uintptr_t)player->record + from, (unsigned)n);

        /* A client that is gone already is noticed by reading. */
        if (uv_try_write((uv_stream_t *)&scene->client, &out, 1) != (int)n)
            return;
        scene->n_said[SERVER] += n;
    }
    if (scene->n_said[SERVER] >= limit)
        scene_cut(scene);
}

static void message_ended(struct scene *scene)
{
    const struct player *player = scene->player;
    size_t i;

    if (scene->started && scene->head[0] != 'S')
        return;
    if (scene->started)
        scene->n_syncs++;
    scene->started = true;
    /* What comes after the last one is the same again. */
    i = scene->n_syncs < player->n_ends ? scene->n_syncs : player->n_ends - 1;
    scene_say(scene, i > 0 ? player->ends[i - 1] : 0, player->ends[i]);
}

/* One byte of the client's. The startup packet has no type in front of its length. */
static void scene_hear(struct scene *scene, unsigned char c)
{
    size_t skip = scene->started ? 0 : 1;

    if (scene->n_head + skip < sizeof(scene->head)) {
        if (scene->n_head == 0 && skip == 1)
            scene->head[0] = 0;
        scene->head[skip + scene->n_head++] = c;
        if (scene->n_head + skip < sizeof(scene->head))
            return;
        scene->left = ((size_t)scene->head[1] << 24 | (size_t)scene->head[2] << 16 |
                       (size_t)scene->head[3] << 8 | scene->head[4]) -
                      4;
    } else {
        scene->left--;
    }
    if (scene->left == 0) {
        scene->n_head = 0;
        message_ended(scene);
    }
}

static void scene_read_cb(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct scene *scene = stream->data;
    const struct player *player = scene->player;

    if (n < 0) {
        scene_close(scene);
        return;
    }
    for (ssize_t i = 0; i < n && !scene->over; i++) {
        scene_hear(scene, (unsigned char)buf->base[i]);
        if (player->side == CLIENT && !scene->over && ++scene->n_said[CLIENT] >= player->cut_at)
            scene_cut(scene);
    }
}

static void scene_alloc_cb(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)size;
    *buf = uv_buf_init(((struct scene *)handle->data)->player->chunk, PROXY_CHUNK);
}

static void scene_accept_cb(uv_stream_t *listener, int status)
{
    struct player *player = listener->data;
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_int_equal(status, 0);
    assert_non_null(scene);
    scene->player = player;
    uv_tcp_init(listener->loop, &scene->client);
    scene->client.data = scene;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&scene->client), 0);
    uv_tcp_nodelay(&scene->client, 1);
    player->accepted++;
    uv_read_start((uv_stream_t *)&scene->client, scene_alloc_cb, scene_read_cb);
}

/* Once through a real server: its settings, a statement that is prepared, and the same again. */
static void record(struct fixture *f, struct player *player)
{
    struct proxy *proxy = proxy_new(f);
    struct ended ended = {0};

    testdb_exec(&f->db, "CREATE TABLE t (id int8)");
    fixture_conn_to(f, proxy->conninfo);
    conn_start(f->conn);
    for (int i = 0; i < 2; i++) {
        memset(&ended, 0, sizeof(ended));
        submit(f, &work, i, &ended);
        run_until(f, ended.calls == 1);
        assert_ended(ended, PG_VERDICT_OK);
    }
    player->record = proxy->said[SERVER].data;
    player->n_bytes[CLIENT] = proxy->said[CLIENT].n;
    player->n_bytes[SERVER] = proxy->said[SERVER].n;
    assert_true(player->n_bytes[CLIENT] < PROXY_RECORD && player->n_bytes[SERVER] < PROXY_RECORD);
    /* Each answer ends with a ReadyForQuery. */
    for (size_t at = 0; at < proxy->said[SERVER].n;) {
        const unsigned char *m = (const unsigned char *)player->record + at;

        at += 1 + ((size_t)m[1] << 24 | (size_t)m[2] << 16 | (size_t)m[3] << 8 | m[4]);
        if (m[0] == 'Z' && player->n_ends < SYNCS_MAX)
            player->ends[player->n_ends++] = at;
    }
    assert_int_equal(player->n_ends, 4); /* startup, settings, prepared, once more */
    fixture_close(f);
    f->closed = false;
    f->ready = f->down = 0;
}

static void player_start(struct fixture *f, struct player *player)
{
    struct sockaddr_in addr;
    int len = sizeof(addr);

    player->f = f;
    uv_ip4_addr("127.0.0.1", 0, &addr);
    uv_tcp_init(&f->loop, &player->listener);
    player->listener.data = player;
    assert_int_equal(uv_tcp_bind(&player->listener, (const struct sockaddr *)&addr, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&player->listener, 64, scene_accept_cb), 0);
    uv_tcp_getsockname(&player->listener, (struct sockaddr *)&addr, &len);
    proxy_conninfo(f->network, ntohs(addr.sin_port));
    fixture_conn_to(f, ((struct proxy *)f->network)->conninfo);
}

static size_t n_fds(void)
{
    struct fds fds = fds_now();
    size_t n = 0;

    for (size_t i = 0; i < 1024; i++)
        n += fds.open[i];
    return n;
}

/* A connection for every byte of that side, each with work to do. */
static void cut_everywhere(struct fixture *f, enum side side, enum how how)
{
    static struct player player;
    struct ended ended = {0};
    bool under_way = false;

    f->options.backoff_max_ms = 1;
    f->options.session = &session;
    memset(&player, 0, sizeof(player));
    record(f, &player);
    player.side = side;
    player.how = how;
    player_start(f, &player);
    size_t fds = n_fds();

    conn_start(f->conn);
    for (player.cut_at = 0; player.cut_at < player.n_bytes[side]; player.cut_at++) {
        for (size_t cuts = player.cuts; player.cuts == cuts;) {
            if (!under_way) {
                memset(&ended, 0, sizeof(ended));
                submit(f, &work, 1, &ended);
                under_way = true;
            }
            run_until(f, ended.calls == 1 || player.cuts > cuts);
            if (ended.calls == 1) {
                assert_true(ended.verdict == PG_VERDICT_OK || ended.verdict == PG_VERDICT_UNKNOWN);
                under_way = false;
            }
        }
    }
    player.cut_at = SIZE_MAX;
    if (under_way)
        run_until(f, ended.calls == 1);
    memset(&ended, 0, sizeof(ended));
    submit(f, &work, 1, &ended);
    run_until(f, ended.calls == 1);
    assert_ended(ended, PG_VERDICT_OK);
    assert_true(player.cuts >= player.n_bytes[side]);
    fixture_close(f);
    uv_close((uv_handle_t *)&player.listener, NULL);
    run_until(f, n_fds() < fds); /* the listener; nothing else was there before */
}

static void reset_after_every_byte_of_the_server(void **state)
{
    cut_everywhere(*state, SERVER, RESET);
}

static void ended_after_every_byte_of_the_server(void **state)
{
    cut_everywhere(*state, SERVER, ORDERLY);
}

static void reset_after_every_byte_of_the_client(void **state)
{
    cut_everywhere(*state, CLIENT, RESET);
}

static void ended_after_every_byte_of_the_client(void **state)
{
    cut_everywhere(*state, CLIENT, ORDERLY);
}

/* Watching a connection takes a descriptor of its own. Without one that is an error, and it is tried
 * again. */
static void without_a_descriptor_it_waits_for_one(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;

    fixture_conn_to(f, f->db.conninfo);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    /* libpq's socket takes the only one that is left. */
    int spare = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(spare >= 0);
    struct rlimit tight = {.rlim_cur = (rlim_t)spare + 1, .rlim_max = before.rlim_max};

    close(spare);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    conn_start(f->conn);
    run_until(f, f->down >= 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_string_equal(f->down_err.detail, "too many open files.");
    run_until(f, f->ready == 1);
    assert_true(query(f, &stmt_pid) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            reset_after_every_byte_of_the_server, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            ended_after_every_byte_of_the_server, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            reset_after_every_byte_of_the_client, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            ended_after_every_byte_of_the_client, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(
            without_a_descriptor_it_waits_for_one, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
