/*
 * oid: the object ids of the built-in types we bind and read. They are part of PostgreSQL's wire
 * contract and never change; the server's own catalog header that lists them is not installed with
 * libpq.
 */
#ifndef PG_OID_H
#define PG_OID_H

enum pg_oid {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_NAME = 19,
    OID_INT8 = 20,
    OID_INT2 = 21,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_TID = 27,
    OID_JSON = 114,
    OID_BPCHAR = 1042,
    OID_VARCHAR = 1043,
    OID_TIMESTAMPTZ = 1184,
    OID_UUID = 2950,

    OID_BOOL_ARRAY = 1000,
    OID_BYTEA_ARRAY = 1001,
    OID_INT2_ARRAY = 1005,
    OID_INT4_ARRAY = 1007,
    OID_TEXT_ARRAY = 1009,
    OID_TID_ARRAY = 1010,
    OID_INT8_ARRAY = 1016,
    OID_TIMESTAMPTZ_ARRAY = 1185,
    OID_UUID_ARRAY = 2951,

    OID_FIRST_OF_USER = 16384, /* from here on types made by CREATE TYPE; ours are enums, whose
                                  binary form is text */
};

#define PG_TID_LEN 6 /* block, 4 bytes, and line, 2 */

/* PostgreSQL counts microseconds from 2000-01-01, everybody else from 1970-01-01. */
#define PG_EPOCH_UNIX_US INT64_C(946684800000000)

#endif
