#!/usr/bin/env python3
"""Turns sql/query/*.sql, sql/baseline/*.sql and sql/migrations/*.sql into C tables at build time.

A query loses its header comment and gets its name as a comment in front, so that an operator who looks at
pg_stat_activity sees which statement it is. A migration is embedded byte for byte, because its checksum is recorded. Files of
sql/baseline, which come first, are one migration in the order in which they are named: 1, baseline.

usage: embed-sql.py queries OUT.c OUT.h FILE...
       embed-sql.py migrations OUT.c FILE...
       embed-sql.py script NAME OUT.c FILE
"""
import hashlib
import os
import re
import sys


def literal(text):
    lines = text.splitlines(keepends=True) or [""]
    out = []
    for line in lines:
        escaped = line.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
        out.append('    "%s"' % escaped.replace("?", "\\?"))
    return "\n".join(out)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def stem(path):
    return os.path.splitext(os.path.basename(path))[0]


def queries(out_c, out_h, files):
    names = [stem(f) for f in files]
    with open(out_h, "w", encoding="utf-8") as h:
        h.write("/* Made from sql/query/ by tools/embed-sql.py. */\n#ifndef STORE_STATEMENTS_H\n#define STORE_STATEMENTS_H\n\n")
        h.write('#include "pg/stmt.h"\n\nenum stmt_id {\n')
        h.writelines("    STMT_%s,\n" % n for n in names)
        h.write("    STMT_COUNT\n};\n\nextern const struct stmt stmts[STMT_COUNT];\n\n")
        h.write("/* STMT(job_claim) is the statement in sql/query/job_claim.sql. */\n")
        h.write("#define STMT(name) (&stmts[STMT_##name])\n\n#endif\n")
    with open(out_c, "w", encoding="utf-8") as c:
        c.write('#include "store/statements.h"\n\n#include <assert.h>\n\n')
        c.write('static_assert(STMT_COUNT <= STMT_MAX, "raise STMT_MAX in pg/stmt.h");\n\n')
        c.write("const struct stmt stmts[STMT_COUNT] = {\n")
        for path, name in zip(files, names):
            body = re.sub(r"^\s*--[^\n]*\n", "", read(path), flags=re.M).strip()
            if ";" in body:
                sys.exit("%s: a statement file holds one statement without a semicolon" % path)
            c.write("[STMT_%s] = {STMT_%s, \"%s\",\n%s},\n" % (name, name, name, literal("/* pawl.%s */ %s" % (name, body))))
        c.write("};\n")


def migrations(out_c, files):
    with open(out_c, "w", encoding="utf-8") as c:
        c.write('#include "store/migrations.h"\n\nconst struct migration migrations[] = {\n')
        baseline = [f for f in files if os.path.basename(os.path.dirname(f)) == "baseline"]
        later = files[len(baseline):]
        parts = [(1, "baseline", "\n".join(read(f) for f in baseline))]
        for i, path in enumerate(later, 2):
            m = re.fullmatch(r"(\d{4})_([a-z0-9_]+)", stem(path))
            if not m or int(m[1]) != i:
                sys.exit("%s: migrations are named NNNN_name.sql and numbered from 0002 without a gap" % path)
            parts.append((i, m[2], read(path)))
        for i, name, text in parts:
            digest = hashlib.sha256(text.encode()).hexdigest()
            c.write('{%d, "%s", "%s",\n%s},\n' % (i, name, digest, literal(text)))
        c.write("};\n\nconst int migrations_n = %d;\n" % len(parts))


def script(name, out_c, path):
    with open(out_c, "w", encoding="utf-8") as c:
        c.write('#include "store/migrations.h"\n\nconst char %s[] =\n%s;\n' % (name, literal(read(path))))


if __name__ == "__main__":
    kind, args = sys.argv[1], sys.argv[2:]
    if kind == "queries":
        queries(args[0], args[1], args[2:])
    elif kind == "migrations":
        migrations(args[0], args[1:])
    elif kind == "script":
        script(*args)
    else:
        sys.exit(__doc__)
