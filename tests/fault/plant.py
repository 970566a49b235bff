"""plant: puts a known bug into a copy of a source, so that a worker built from it can prove that the checker sees it.

usage: plant.py NAME OUTPUT.c EMBED-SQL FILE...

FILE: the sources that OUTPUT is made from: all statements of sql/query, or one C file. A plant that no longer applies
because the source has changed fails the build: a checker that is no longer checked is worth nothing.
"""

import os
import re
import subprocess
import sys
import tempfile

# Name: file, pattern, replacement, which must apply; the invariants of which one must catch it; the faults that bring it
# to light (none: it needs no help).
PLANTS = {
    'no_fence': ([('job_settle.sql', r'\n\s+AND j\.token = [^\n]+', ''),
                  ('job_settle_done.sql', r'\n\s+AND j\.token = [^\n]+', '')],
                 (5,), ['freeze']),
    'send_before_commit': ([('ending.c', r'if \(batch->failed\) \{\n(\s+)end_failed',
                             r'if (batch->failed && !all_answered(batch)) {\n\1end_failed')],
                           (4, 5), ['refuse_commits']),
    'reap_by_id': ([('claim_sweep.sql', r' AND j\.token = e\.token', ''),
                    ('claim_sweep.sql', r' AND j\.token = l\.token', '')],
                   (2,), ['kill_worker', 'freeze']),
    'reap_alive': ([('claim_sweep.sql', r'c\.lease_until < pg_catalog\.clock_timestamp\(\)',
                     "c.lease_until < pg_catalog.clock_timestamp() + interval '1 hour'")],
                   (2,), []),
    'claim_taken': ([('job_claim.sql', r'AND c\.token IS NULL', '')], (2,), []),
    'attempts_stand_still': ([('job_claim.sql', r'attempt = j\.attempt \+ 1', 'attempt = j.attempt')], (3,), []),
    'failed_forgotten': ([('job_settle.sql', r"(FROM gone AS g)", r"FROM (SELECT * FROM gone WHERE state <> 'failed') AS g")],
                         (1,), []),
    'no_sweep': ([('claim_sweep.sql', r'LIMIT \$1::int4', 'LIMIT least($1::int4, 0)')], (11,), ['kill_worker']),
}


def apply(name, path, text):
    """The text with the bug in it. Says how often each of its parts for this file applied."""
    for file, pattern, replacement in PLANTS[name][0]:
        if file != os.path.basename(path):
            continue
        text, n = re.subn(pattern, replacement, text)
        if n == 0:
            sys.exit(f'plant.py: {name} does not apply to {path} any more: nothing matches {pattern!r}; adapt the plant')
    return text


def main(name, output, embed_sql, *paths):
    missing = {file for file, _, _ in PLANTS[name][0]} - {os.path.basename(path) for path in paths}
    if missing:
        sys.exit(f'plant.py: {name}: not among the sources: {", ".join(sorted(missing))}')
    texts = []
    for path in paths:
        with open(path, encoding='utf-8') as f:
            texts.append(apply(name, path, f.read()))
    if not paths[0].endswith('.sql'):
        with open(output, 'w', encoding='utf-8') as f:
            f.write(texts[0])
        return
    with tempfile.TemporaryDirectory() as scratch:
        copies = []
        for path, text in zip(paths, texts):
            copies.append(os.path.join(scratch, os.path.basename(path)))
            with open(copies[-1], 'w', encoding='utf-8') as f:
                f.write(text)
        subprocess.run([sys.executable, embed_sql, 'queries', output, os.path.join(scratch, 'unused.h')] + copies,
                       check=True)


if __name__ == '__main__':
    main(*sys.argv[1:])
