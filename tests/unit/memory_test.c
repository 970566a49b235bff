/*
 * memory: which group we are in, what its files say, and when the gate closes and opens. Reading is tested over trees of
 * small files as the kernel would show them.
 */
#include "engine/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <ftw.h>

#include "check.h"

#define MIB (1024LL * 1024)

static void a_group_is_found_by_version(void **state)
{
    static const char hybrid[] =
        "12:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/abc\n0::/user.slice\n";
    char path[32];

    (void)state;
    assert_int_equal(memory_parse_group(hybrid, 2, path, sizeof(path)), 0);
    assert_string_equal(path, "/user.slice");
    assert_int_equal(memory_parse_group(hybrid, 1, path, sizeof(path)), 0);
    assert_string_equal(path, "/docker/abc");
    assert_int_equal(memory_parse_group("0::/", 2, path, sizeof(path)), 0);
    assert_string_equal(path, "/");
    assert_int_equal(memory_parse_group("0::/", 1, path, sizeof(path)), PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_group("10::/x\n3:memoryless:/y\n", 2, path, sizeof(path)),
                     PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_group("3:memoryless,mem:/memory\n", 1, path, sizeof(path)),
                     PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_group("", 2, path, sizeof(path)), PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_group("garbage\n:\n::", 1, path, sizeof(path)), PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_group("0::/abc\n", 2, path, 4), PAWL_ELIMIT);
    assert_int_equal(memory_parse_group("0::/abc\n", 2, path, 5), 0);
}

static void numbers_are_read_strictly(void **state)
{
    int64_t n = 7;

    (void)state;
    assert_int_equal(memory_parse_bytes("max\n", &n), 0);
    assert_true(n == INT64_MAX);
    assert_int_equal(memory_parse_bytes("1048576\n", &n), 0);
    assert_int_equal(n, MIB);
    assert_int_equal(memory_parse_bytes("", &n), PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_bytes("-1\n", &n), PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_bytes("99999999999999999999\n", &n), PAWL_ENOTFOUND);
    assert_int_equal(n, MIB); /* untouched */
}

static void fields_are_found_by_their_whole_name(void **state)
{
    int64_t n = 0;

    (void)state;
    assert_int_equal(memory_parse_field("MemTotal:  2048 kB\nMemAvailable: 1 kB\n", "MemTotal", &n),
                     0);
    assert_int_equal(n, 2 * MIB);
    assert_int_equal(
        memory_parse_field("total_inactive_file 5\ninactive_file 6\n", "inactive_file", &n), 0);
    assert_int_equal(n, 6);
    assert_int_equal(memory_parse_field("inactive_file_x 5\n", "inactive_file", &n),
                     PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_field("MemTotal: many kB\n", "MemTotal", &n), PAWL_ENOTFOUND);
    assert_int_equal(memory_parse_statm("900 25 3 4 0 5 0\n", 4096, &n), 0);
    assert_int_equal(n, 25 * 4096);
    assert_int_equal(memory_parse_statm("900\n", 4096, &n), PAWL_ENOTFOUND);
}

/* A tree of files. */
struct tree {
    char root[64];
    char proc[80];
    char group[80];
    struct memory_roots roots;
};

static void put(const struct tree *tree, const char *path, const char *text)
{
    char full[256];

    snprintf(full, sizeof(full), "%s/%s", tree->root, path);
    for (char *slash = full + strlen(tree->root) + 1; (slash = strchr(slash, '/')) != NULL;
         slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int tree_setup(void **state)
{
    struct tree *tree = calloc(1, sizeof(*tree));
    const char *tmp = getenv("TMPDIR");

    if (tree == NULL)
        return -1;
    *state = tree;
    snprintf(tree->root, sizeof(tree->root), "%s/pawl-memory-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(tree->root) == NULL)
        return -1;
    snprintf(tree->proc, sizeof(tree->proc), "%s/proc", tree->root);
    snprintf(tree->group, sizeof(tree->group), "%s/group", tree->root);
    tree->roots = (struct memory_roots){.proc = tree->proc, .group = tree->group};
    put(tree, "proc/meminfo", "MemTotal: 1024000 kB\nMemFree: 1 kB\nMemAvailable: 256000 kB\n");
    put(tree, "proc/self/statm", "100 7 0 0 0 0 0\n");
    return 0;
}

static int tree_teardown(void **state)
{
    struct tree *tree = *state;
    int rc = nftw(tree->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);

    free(tree);
    return rc;
}

static struct memory_sample sample_of(const struct tree *tree)
{
    struct memory_sample sample = {0};
    struct pawl_err err = {0};

    if (memory_read(&tree->roots, &sample, &err) < 0)
        fail_msg("%s", err.message);
    return sample;
}

static void without_a_group_it_is_the_machine(void **state)
{
    struct tree *tree = *state;
    struct memory_sample sample = sample_of(tree);

    assert_int_equal(sample.source, MEMORY_MACHINE);
    assert_int_equal(sample.limit_bytes, 1024000LL * 1024);
    assert_int_equal(sample.used_bytes, 768000LL * 1024);
    assert_int_equal(memory_percent(&sample), 75);
    assert_true(sample.rss_bytes >= 7 * 4096);
}

static void a_group_of_version_2_counts_without_its_idle_file_pages(void **state)
{
    struct tree *tree = *state;

    put(tree, "proc/self/cgroup", "0::/work/one\n");
    put(tree, "group/work/one/memory.max", "104857600\n");
    put(tree, "group/work/one/memory.current", "94371840\n");
    put(tree, "group/work/one/memory.stat", "anon 1\nfile 2\ninactive_file 41943040\n");
    struct memory_sample sample = sample_of(tree);

    assert_int_equal(sample.source, MEMORY_GROUP2);
    assert_int_equal(sample.limit_bytes, 100 * MIB);
    assert_int_equal(sample.used_bytes, 50 * MIB);
    assert_int_equal(memory_percent(&sample), 50);
}

static void the_tightest_group_above_counts(void **state)
{
    struct tree *tree = *state;

    put(tree, "proc/self/cgroup", "0::/outer/inner\n");
    put(tree, "group/outer/inner/memory.max", "max\n");
    put(tree, "group/outer/inner/memory.current", "20971520\n");
    put(tree, "group/outer/memory.max", "104857600\n");
    put(tree, "group/outer/memory.current", "62914560\n");
    put(tree, "group/memory.max", "209715200\n"); /* 31 %: looser than 60 % */
    put(tree, "group/memory.current", "64000000\n");
    struct memory_sample sample = sample_of(tree);

    assert_int_equal(sample.limit_bytes, 100 * MIB);
    assert_int_equal(memory_percent(&sample), 60);
}

/* Inside a container /proc may name a path of the host that is not there. */
static void a_path_that_is_not_there_leads_to_the_root(void **state)
{
    struct tree *tree = *state;

    put(tree, "proc/self/cgroup", "0::/docker/0123456789\n");
    put(tree, "group/memory.max", "104857600\n");
    put(tree, "group/memory.current", "10485760\n");
    assert_int_equal(sample_of(tree).source, MEMORY_GROUP2);
}

static void version_1_is_read_and_its_number_for_no_limit_is_none(void **state)
{
    struct tree *tree = *state;

    put(tree, "proc/self/cgroup", "4:memory:/job\n0::/\n");
    put(tree, "group/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(tree, "group/memory/memory.usage_in_bytes", "5000\n");
    assert_int_equal(sample_of(tree).source, MEMORY_MACHINE);
    put(tree, "group/memory/job/memory.limit_in_bytes", "104857600\n");
    put(tree, "group/memory/job/memory.usage_in_bytes", "83886080\n");
    put(tree, "group/memory/job/memory.stat", "inactive_file 83886080\ntotal_inactive_file 0\n");
    struct memory_sample sample = sample_of(tree);

    assert_int_equal(sample.source, MEMORY_GROUP1);
    assert_int_equal(memory_percent(&sample), 80);
}

static void what_cannot_be_read_is_an_error(void **state)
{
    struct tree *tree = *state;
    struct memory_sample sample = {.used_bytes = 5};
    struct pawl_err err = {0};

    put(tree, "proc/meminfo", "MemTotal: 5 kB\n");
    assert_int_equal(memory_read(&tree->roots, &sample, &err), PAWL_EFAILED);
    assert_has(err.message, "memory");
    assert_int_equal(sample.used_bytes, 5); /* untouched */
}

static void this_machine_can_be_read(void **state)
{
    struct memory_sample sample = {0};

    (void)state;
    assert_int_equal(memory_read(&memory_roots_system, &sample, NULL), 0);
    assert_true(sample.limit_bytes > 0 && sample.used_bytes > 0);
    assert_in_range(memory_percent(&sample), 1, 100);
    assert_true(sample.rss_bytes > 0);
}

static struct memory_sample used(enum memory_source source, int64_t per_mille)
{
    return (struct memory_sample){
        .source = source, .used_bytes = per_mille * MIB, .limit_bytes = 1000 * MIB};
}

static void the_gate_closes_above_and_opens_five_points_below(void **state)
{
    struct memory_gate gate = {.group_percent = 80, .machine_percent = 95};

    static const struct {
        int64_t per_mille;
        enum memory_change change;
    } steps[] = {
        {790, MEMORY_UNCHANGED},
        {800, MEMORY_UNCHANGED},
        {801, MEMORY_CLOSED},
        {900, MEMORY_UNCHANGED},
        {790, MEMORY_UNCHANGED},
        {751, MEMORY_UNCHANGED},
        {750, MEMORY_OPENED},
        {800, MEMORY_UNCHANGED},
        {801, MEMORY_CLOSED},
        {0, MEMORY_OPENED},
    };

    (void)state;
    for (size_t i = 0; i < LEN(steps); i++) {
        struct memory_sample sample = used(MEMORY_GROUP2, steps[i].per_mille);

        if (memory_gate_sample(&gate, &sample) != steps[i].change)
            fail_msg("step %zu", i);
    }
}

static void a_machine_has_a_threshold_of_its_own(void **state)
{
    struct memory_gate gate = {.group_percent = 80, .machine_percent = 95};
    struct memory_gate off = {0};
    struct memory_sample sample = used(MEMORY_MACHINE, 949);

    (void)state;
    assert_int_equal(memory_gate_sample(&gate, &sample), MEMORY_UNCHANGED);
    sample = used(MEMORY_MACHINE, 960);
    assert_int_equal(memory_gate_sample(&gate, &sample), MEMORY_CLOSED);
    assert_int_equal(memory_gate_sample(&off, &sample), MEMORY_UNCHANGED);
    assert_false(off.closed);
}

/* With a small threshold, five points below it may be nothing at all. */
static void a_small_threshold_can_be_left_again(void **state)
{
    struct memory_gate gate = {.group_percent = 4};
    struct memory_sample sample = used(MEMORY_GROUP2, 50);

    (void)state;
    assert_int_equal(memory_gate_sample(&gate, &sample), MEMORY_CLOSED);
    sample = used(MEMORY_GROUP2, 20);
    assert_int_equal(memory_gate_sample(&gate, &sample), MEMORY_OPENED);
}

#define tree_test(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_is_found_by_version),
        cmocka_unit_test(numbers_are_read_strictly),
        cmocka_unit_test(fields_are_found_by_their_whole_name),
        tree_test(without_a_group_it_is_the_machine),
        tree_test(a_group_of_version_2_counts_without_its_idle_file_pages),
        tree_test(the_tightest_group_above_counts),
        tree_test(a_path_that_is_not_there_leads_to_the_root),
        tree_test(version_1_is_read_and_its_number_for_no_limit_is_none),
        tree_test(what_cannot_be_read_is_an_error),
        cmocka_unit_test(this_machine_can_be_read),
        cmocka_unit_test(the_gate_closes_above_and_opens_five_points_below),
        cmocka_unit_test(a_machine_has_a_threshold_of_its_own),
        cmocka_unit_test(a_small_threshold_can_be_left_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
