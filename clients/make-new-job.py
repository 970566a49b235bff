#!/usr/bin/env python3
"""make-new-job: what the clients know about a new job, made from message NewJob of the contract and from the words of
src/core/job_fields.h; numbers that proto/lock.txt lacks; and rows that the guide to SQL lacks, with the words of --help.
clients/update-contract runs it; with --check it only says what would change.

usage: clients/make-new-job.py [--check]
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'tools'))

import job_fields  # noqa: E402

PYTHON = 'clients/python/pawl/new_job.py'
NODE = 'clients/node/lib/new_job.d.ts'
LOCK = 'proto/lock.txt'
GUIDE = 'docs/guides/sql.md'
WIDTH = 110


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as f:
        return f.read()


def members(proto):
    """Name, type, whether it is repeated, whether it may be 0 on purpose, and the comment of each member of NewJob."""
    body = re.search(r'^message NewJob \{\n(.*?)^\}', proto, re.S | re.M).group(1)
    comment, found, choice = [], [], False
    for line in (line.strip() for line in body.splitlines()):
        field = re.match(r'(repeated )?(\w+) (\w+) = \d+;', line)
        if line.startswith('//'):
            comment.append(line[2:].strip())
        elif field:
            found.append((field.group(3), field.group(2), bool(field.group(1)), choice, ' '.join(comment)))
            comment = []
        else:
            choice = line.startswith('oneof')
            comment = []
    return [m for m in found if m[0] != 'payload_is_bytes']


def fill(text, indent, mark):
    lines, line = [], mark
    for word in text.split():
        if len(indent) + len(line) + len(word) + 1 > WIDTH:
            lines.append(indent + line)
            line = mark
        line += f' {word}'
    return [*lines, indent + line]


def python(fields):
    types = {'string': ("str", "''"), 'uint32': ('int', '0'), 'int64': ('Duration', '0'), 'bytes': ('Any', 'None')}
    order = sorted(fields, key=lambda m: ['kind', 'payload'].index(m[0]) if m[0] in ('kind', 'payload') else 2)
    out = ['"""A new job. Made by clients/make-new-job.py from the contract; edit that."""', '',
           'from __future__ import annotations', '', 'from dataclasses import dataclass',
           'from datetime import datetime, timezone', 'from typing import Any, Optional, Sequence', '',
           'from .outcomes import Duration, encode, to_ms', 'from .v1 import pawl_pb2 as pb', '', '',
           '@dataclass(frozen=True)', 'class NewJob:',
           '    """A job to be accepted; everything but kind may be left out. payload: bytes as they are, anything else as JSON.',
           '    on_conflict \'refuse\' raises ExistsError."""', '']
    given, later = [], []
    for name, kind, repeated, choice, comment in order:
        short = job_fields.UNITS.sub('', name)
        type_, default = types[kind]
        if repeated:
            type_, default, value = f'Sequence[{type_}]', '()', f'list(self.{short})'
        elif name.endswith('_us'):
            type_, default = 'Optional[datetime]', 'None'
        elif choice:
            type_, default = f'Optional[{type_}]', 'None'
        else:
            value = f'to_ms(self.{short})' if kind == 'int64' else f'self.{short}'
        out += fill(comment, '    ', '#')
        out.append(f'    {short}: {type_}' + ('' if name == 'kind' else f' = {default}'))
        if name.endswith('_us'):
            later += [f'        if self.{short} is not None:',
                      f'            due = self.{short} if self.{short}.tzinfo else self.{short}.astimezone(timezone.utc)',
                      f'            out.{name} = round(due.timestamp() * 1e6)']
        elif choice:
            later += [f'        if self.{short} is not None:', f'            out.{name} = self.{short}']
        elif name == 'payload':
            given += ['            payload=encode(self.payload),',
                      '            payload_is_bytes=isinstance(self.payload, (bytes, bytearray, memoryview)),']
        else:
            given.append(f'            {name}={value},')
    out += ['', '    def message(self) -> pb.NewJob:', '        out = pb.NewJob(', *given, '        )', *later, '        return out']
    return '\n'.join(out) + '\n'


def node(fields, words):
    types = {'string': 'string', 'uint32': 'number', 'int64': 'number'}
    out = ['// Made by clients/make-new-job.py from the contract; edit that.', '',
           '/** What a job may have beside kind and payload. */', 'export interface JobOptions {']
    for name, kind, repeated, _, comment in fields:
        if name in ('kind', 'payload'):
            continue
        type_ = ' | '.join(f"'{word}'" for word in words.get(name, [])) or types[kind]
        if repeated:
            type_ = f'({type_})[]' if '|' in type_ else f'{type_}[]'
        if name.endswith('_us'):
            type_, name = 'Date | number | string', name[:-3]
        out += ['  /**', *fill(comment, '   ', '*'), '   */'] if len(comment) > WIDTH - 12 else [f'  /** {comment} */']
        out.append(f'  {re.sub("_([a-z])", lambda m: m.group(1).upper(), name)}?: {type_};')
    return '\n'.join([*out, '}']) + '\n'


def lock():
    """The numbers that are new, added where their message is; what is there stays."""
    printed = subprocess.run([sys.executable, 'tests/style/protos.py', '.', '--print'], cwd=ROOT, check=True,
                             stdout=subprocess.PIPE, text=True).stdout.splitlines()
    lines = read(LOCK).splitlines()
    known = {line.split(': ', 1)[0] for line in lines}
    for at, line in enumerate(printed):
        if line.startswith('pawl') and line.split(': ', 1)[0] not in known:
            lines.insert(lines.index(printed[at - 1]) + 1 if printed[at - 1] in lines else len(lines), line)
    return '\n'.join(lines) + '\n'


def guide(table):
    """The parameters of pawl.enqueue that have no row yet, at the end of their table; what is there stays."""
    types = {'SMALL': 'integer', 'INT': 'integer', 'ID': 'bigint', 'SPAN': 'interval', 'SPAN32': 'interval', 'TIME': 'timestamptz',
             'WORDS': 'text[]', 'TEXTS': 'text[]'}
    text = read(GUIDE)
    end = text.index('\n\nNULL means ', text.index('## pawl.enqueue '))
    rows = [f'\n| `{f.sql}` | {types.get(f.type, "text")} | {f.help[1:2].lower()}{f.help[2:-1]} |' for f in table
            if f'`{f.sql}`' not in text[:end]]
    return text[:end] + ''.join(rows) + text[end:]


def main(check):
    fields = members(read('proto/pawl/v1/pawl.proto'))
    table = job_fields.read(read('src/core/job_fields.h'), read('src/core/job_fields.c'))
    made = {PYTHON: python(fields), NODE: node(fields, {f.wire: f.words for f in table if f.words}), LOCK: lock(), GUIDE: guide(table)}
    stale = [path for path, text in made.items() if not os.path.exists(os.path.join(ROOT, path)) or read(path) != text]
    for path in stale:
        if check:
            print(f'{path} is not what clients/make-new-job.py makes: run clients/update-contract')
            continue
        with open(os.path.join(ROOT, path), 'w', encoding='utf-8') as f:
            f.write(made[path])
    return 1 if check and stale else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:] == ['--check']))
