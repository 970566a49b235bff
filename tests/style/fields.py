"""A new job is described once, in src/core/job_fields.h. What cannot be made from that table has the same fields, ranges and
words: pawl.h, the protocol, the SQL functions and statements, the clients and the guide."""

import os
import re
import sys

from tap import Tap, read, without_comments

PAWL_H, PROTO, SQL = 'include/pawl.h', 'proto/pawl/v1/pawl.proto', 'sql/baseline/enqueue.sql'
TABLE, WORDS = 'src/core/job_fields.h', 'src/core/job_fields.c'
GUIDE, PYTHON, NODE = 'docs/guides/sql.md', 'clients/python/pawl/new_job.py', 'clients/node/lib/new_job.d.ts'
QUERIES = ['sql/query/job_enqueue_options.sql', 'sql/query/job_enqueue_once.sql', 'sql/query/job_enqueue.sql', 'sql/query/job_enqueue_one.sql',
           'sql/query/job_enqueue_same.sql']
PLACES = [TABLE, WORDS, PAWL_H, 'src/core/job.h', PROTO, SQL, GUIDE, PYTHON, NODE, *QUERIES]

# Members that belong to a field, and fields of one surface.
LENGTHS = {'size', 'payload_len', 'unique_key_len', 'n_tags'}
ONLY_WIRE = {'payload_is_bytes', 'step'}
ONLY_SQL = {'bytes'}
NUMBERS = ('SMALL', 'INT')


def differ(where, wanted, found):
    return [f'{where}: {name} is missing' for name in wanted if name not in found] + [
        f'{where}: {name} is no field of {TABLE}' for name in found if name not in wanted]


def arguments(text, function):
    """Names of the parameters of an SQL function that returns one id."""
    match = re.search(r'CREATE FUNCTION pawl\.' + function + r'\(\s*kind(.*?)\n\) RETURNS bigint', text, re.S)
    parts = re.sub(r"'[^']*'", '', match.group(1) if match else '').split(',')
    return ['kind'] + [part.split()[0] for part in parts[1:] if part.strip()]


def check_c(fields, texts):
    body = re.search(r'struct pawl_job_new \{(.*?)\n\};', without_comments(texts[PAWL_H]), re.S).group(1)
    members = [line.split()[-1].lstrip('*') for line in body.split(';') if line.strip()]
    return differ(PAWL_H, {f.member for f in fields} | LENGTHS, members)


def check_wire(fields, texts):
    body = re.search(r'^message NewJob \{\n(.*?)^\}', texts[PROTO], re.S | re.M).group(1)
    return differ(PROTO, {f.wire for f in fields if f.wire} | ONLY_WIRE, re.findall(r'(\w+) = \d+;', body))


def check_functions(fields, texts):
    wanted = {f.sql for f in fields} | ONLY_SQL
    problems = []
    for function in ('enqueue', 'enqueue_options'):
        problems += differ(f'{SQL}, pawl.{function}', wanted, arguments(texts[SQL], function))
    listed = re.search(r'WHERE k NOT IN \((.*?)\)', texts[SQL], re.S).group(1)
    return problems + differ(f'{SQL}, pawl.enqueue_many', wanted - ONLY_SQL, re.findall(r"'(\w+)'", listed))


def check_statements(fields, texts):
    """Parameters are bound in the order of the table: plain fields, options, meta."""
    plain = [f.member for f in fields if f.home == 'PLAIN']
    every = [*plain, *(f.member for f in fields if f.home == 'OPTION'), 'meta']
    problems = []
    for path in QUERIES[:2]:
        lists = [[name.strip() for name in body.split(',')] for body in re.findall(r'AS i\((.*?)\)', texts[path], re.S)]
        if not lists or any(names[:len(every)] != every for names in lists):
            problems.append(f'{path}: the parameters are not, in this order: {", ".join(every)}')
    for path in QUERIES[2:]:
        text = '\n'.join(line for line in texts[path].splitlines() if not line.startswith('--'))
        if {int(n) for n in re.findall(r'\$(\d+)', text)} != set(range(1, len(plain) + 1)):
            problems.append(f'{path}: the parameters are not, in this order: {", ".join(plain)}')
    return problems


def constants(texts):
    found = {}
    for path in (PAWL_H, 'src/core/job.h', TABLE):
        for name, value in re.findall(r'^#define (\w+)\s+(\(?[\d *]+\)?)\s*(?:$|/\*)', texts[path], re.M):
            found[name] = eval(value)  # pylint: disable=eval-used # digits, stars and parentheses
    return found


def check_ranges(fields, texts):
    """The SQL functions refuse with the words and the limits of the table."""
    known, wanted = constants(texts), []
    for f in fields:
        least, most = (known.get(word, word) for word in (f.least, f.most))
        if f.type == 'TEXT':
            wanted.append(f'{f.name} has more than {most} bytes')
            wanted += [f'{f.name} is empty'] if least == '1' else []
        elif f.type == 'TEXTS':
            wanted.append(f'a job has at most {most} {f.name}')
        elif f.type == 'BYTES':
            wanted.append(f'the {f.name} has % bytes, and the limit is {most}')
        elif f.type in NUMBERS:
            wanted.append(f'{f.name} % is not between {least} and {most}')
        wanted += [f"'{word}'" for word in f.words if word != 'auto']
    return [f'{SQL} has no {text}' for text in wanted if text not in texts[SQL]]


def check_clients(fields, texts):
    """Made by clients/make-new-job.py, from the protocol."""
    names = re.findall(r'^    (\w+): ', texts[PYTHON], re.M)
    camel = re.findall(r'^  (\w+)\?: ', texts[NODE], re.M)
    return differ(PYTHON, {f.sql for f in fields if f.wire} | {'step'}, names) + differ(
        NODE, {re.sub('_([a-z])', lambda m: m.group(1).upper(), f.wire[:-3] if f.wire.endswith('_us') else f.wire)
               for f in fields if f.wire and f.name not in ('kind', 'payload')} | {'step'}, camel)


def check_guide(fields, texts):
    table = texts[GUIDE][texts[GUIDE].index('## pawl.enqueue '):]
    table = table[:table.index('\nNULL means ')]
    return differ(GUIDE, {f.sql for f in fields} | ONLY_SQL,
                  [name for row in re.findall(r'^\|([^|]*`[^|]*)\|', table, re.M) for name in re.findall(r'`(\w+)`', row)])


CHECKS = {
    'pawl.h': check_c, 'the protocol': check_wire, 'the SQL functions': check_functions,
    'the SQL statements': check_statements, 'ranges and words in SQL': check_ranges, 'the clients': check_clients,
    'the guide to SQL': check_guide,
}
# What is taken away, and who must notice: (place, text, instead, check).
PLANTS = [
    (PAWL_H, '    int64_t deadline_ms;', '', 'pawl.h'),
    (PROTO, 'int64 deadline_ms = 17;', '', 'the protocol'),
    (SQL, 'deadline interval DEFAULT NULL', 'later interval DEFAULT NULL', 'the SQL functions'),
    (QUERIES[0], 'lane, deadline_ms,', 'deadline_ms, lane,', 'the SQL statements'),
    (QUERIES[4], '$8', '$9', 'the SQL statements'),
    (SQL, 'trace has more than 1024 bytes', 'trace is too long', 'ranges and words in SQL'),
    (PYTHON, '    correlation: str', '    about: str', 'the clients'),
    (NODE, '  correlation?:', '  about?:', 'the clients'),
    (GUIDE, '| `trace` |', '| `traces` |', 'the guide to SQL'),
]


def main(root):
    sys.path.insert(0, os.path.join(root, 'tools'))
    import job_fields  # pylint: disable=import-outside-toplevel

    tap = Tap()
    texts = {path: read(root, path) for path in PLACES}
    fields = job_fields.read(texts[TABLE], texts[WORDS])
    tap.result('the table is read whole', [] if len(fields) == len(re.findall(r'^    X\(', texts[TABLE], re.M)) > 20
               else [f'{len(fields)} fields were read'])
    for path, text, instead, name in PLANTS:
        broken = {**texts, path: texts[path].replace(text, instead)}
        tap.result(f'{name}: "{text.strip()}" that is gone from {path} is caught',
                   [] if text in texts[path] and CHECKS[name](fields, broken) else ['nothing was found'])
    for name, check in CHECKS.items():
        tap.result(f'{name}: as in {TABLE}', check(fields, texts))
    tap.end()


main(sys.argv[1])
