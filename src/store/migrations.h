/* migrations: sql/baseline (version 1), the files of sql/migrations and sql/bootstrap.sql as they were embedded at
 * build time. */
#ifndef STORE_MIGRATIONS_H
#define STORE_MIGRATIONS_H

struct migration {
    int version;
    const char *name;
    const char *checksum; /* SHA-256 of the file, in hexadecimal */
    const char *sql;
};

extern const struct migration migrations[]; /* versions 1 to migrations_n, in order */
extern const int migrations_n;
extern const char migration_bootstrap[];

#endif
