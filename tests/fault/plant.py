"""plant: puts a known bug into a copy of a source, so that a worker built from it can prove that the checker sees it.

usage: plant.py NAME OUTPUT.c EMBED-SQL FILE...

FILE: the sources that OUTPUT is made from: all statements of sql/query, or one C file. A plant that no longer applies
because the source has changed fails the build: a checker that is no longer checked is worth nothing. Bugs in functions of
the database need no worker of their own: they are put into the database of the run.
"""

import collections
import os
import re
import subprocess
import sys
import tempfile

# edits: file or function, pattern, replacement, which must apply; the invariants of which one must catch it; the faults that
# bring it to light (none: it needs no help); the program that has the bug; how often producers produce: most bugs are found
# in a crowd, claims of many jobs; seconds and gap: how long, and how far apart the faults are, when the usual does not arrange
# the moment that the bug needs (moments.py counts them); alone: no worker without the bug does the same work rightly; slow: how many leases a slow job may take;
# says: what a violation must say, where the run is too short for the queue to drain and its invariant is broken by that alone;
# setup: SQL for the database of the run, that makes the moment likely.
Plant = collections.namedtuple('Plant', 'edits invariants faults program every_ms seconds gap alone slow says '
                               'setup', defaults=('soak_worker', 4, None, None, False, 1.5, '', ''))

# What every short run breaks, because it ends before its queue is empty.
UNFINISHED = {1, 11}

PLANTS = {name: Plant(*plant) for name, plant in {
    # No bug: what is found here would be found with any.
    'nothing': ([], (), ['kill_worker', 'freeze']),
    'no_fence': ([('job_settle.sql', r'\n\s+AND j\.token = [^\n]+', ''),
                  ('job_settle.sql', r'ON j\.id = i\.id AND j\.token = i\.token', 'ON j.id = i.id'),
                  ('job_settle_done.sql', r'\n\s+AND j\.token = [^\n]+', '')],
                 (5,), ['freeze']),
    'send_before_commit': ([('ending.c', r'if \(batch->failed\) \{\n(\s+)end_failed',
                             r'if (batch->failed && !all_answered(batch)) {\n\1end_failed')],
                           (4, 5), ['refuse_commits']),
    'reap_by_id': ([('claim_sweep.sql', r' AND j\.token = e\.token', ''),
                    ('claim_sweep.sql', r' AND j\.token = l\.token', '')],
                   (2,), ['kill_worker', 'freeze'], 'soak_worker', 10, 20, (0.4, 1), False, 4),
    'reap_alive': ([('claim_sweep.sql', r'c\.lease_until < pg_catalog\.clock_timestamp\(\)',
                     "c.lease_until < pg_catalog.clock_timestamp() + interval '1 hour'")],
                   (2,), []),
    'never_shrinks': ([('sweep.c', r'sweep->most > 1 \? sweep->most / 2 : 1', 'sweep->most')],
                      (11,), ['kill_worker', 'slow_sweeps'], 'soak_worker', 4, None, None, False, 1.5,
                      'has expired, and nobody swept it'),
    'claim_taken': ([('job_claim.sql', r'AND c\.token IS NULL', '')], (2,), []),
    'attempts_stand_still': ([('job_claim.sql', r'attempt = j\.attempt \+ 1', 'attempt = j.attempt')], (3,), []),
    'failed_forgotten': ([('job_settle.sql', r"(FROM gone AS g)", r"FROM (SELECT * FROM gone WHERE state <> 'failed') AS g")],
                         (1,), [], 'soak_worker', 4, None, None, False, 1.5, 'was acknowledged and is gone'),
    'lane_let_in': ([('job_claim_lanes.sql', r'OR w\.rank <= d\.room', 'OR w.rank <= d.room + 1')], (6,), []),
    'guard_ignored': ([('pawl.guard_take', r'IF \(CASE WHEN held\.live_id', 'IF false AND (CASE WHEN held.live_id')],
                      (7,), []),
    'winner_unnamed': ([('pawl.guard_take', r'RETURN held\.job_id', 'RETURN new_id')], (7,), []),
    'child_counted_twice': ([('job_settle.sql', r'p\.children_left - f\.n', 'p.children_left - 2 * f.n'),
                             ('job_settle_children.sql', r'p\.children_left - f\.n', 'p.children_left - 2 * f.n')], (8,), []),
    'child_results_kept': ([('job_settle_step.sql', r'WHERE m\.progress AND m\.riders & 32 <> 0', 'WHERE false')], (8,), []),
    'consume_dropped': ([('job_settle_step.sql', r'AND u\.progress AND s\.key IS NULL', 'AND false'),
                         ('job_settle_step.sql', r'consumed = s\.consumed OR u\.progress', 'consumed = s.consumed'),
                         ('job_settle_step.sql', r'AND NOT \(u\.progress AND s\.key IS NULL\)', '')],
                        (9,), []),
    'wake_up_lost': ([('job_settle_step.sql', r'coalesce\(j\.inbox, 0\) > i\.seen\s+OR EXISTS', 'EXISTS')], (9,), []),
    'quorum_early': ([('job_settle.sql', r'p\.children_left - f\.n <= p\.join_at', 'p.children_left - f.n <= p.join_at + 1'),
                      ('job_settle_children.sql', r'p\.children_left - f\.n <= p\.join_at',
                       'p.children_left - f.n <= p.join_at + 1')], (8,), []),
    'rest_not_cancelled': ([('pawl.children_end', r'IF cancel THEN', 'IF false THEN')], (8,), []),
    'results_left': ([('settle_riders.c', r'(return machine != NULL && machine->children_left > 0);',
                       r'\1 && machine->children_cancel;')], (8,), [], 'soak_worker', 10, 20, None, False, 1.5, '',
                     # The child ends while its parent's settle waits for the row that it has locked.
                     """CREATE CONSTRAINT TRIGGER slower AFTER INSERT ON pawl.child DEFERRABLE INITIALLY DEFERRED
                        FOR EACH ROW EXECUTE FUNCTION soak.slow('0.03')"""),
    'overtaken': ([('job_claim_lanes.sql', r'AND NOT \(d\.strict AND EXISTS', 'AND NOT (false AND EXISTS')], (6,), [],
                  'soak_worker', 4, 8),
    'rate_doubled': ([('job_claim_lanes.sql', r'l\.tokens \+ l\.rate_per_s', 'l.tokens + 2 * l.rate_per_s')],
                     (6,), [], 'soak_worker', 4, 12),
    'deadline_ignored': ([('pawl.machine_line', r'deadline_at <= now\(\)', 'false')], (12,), []),
    # In a server.
    'served_before_commit': ([('ending.c', r'if \(batch->failed\) \{\n(\s+)end_failed',
                               r'if (batch->failed && !all_answered(batch)) {\n\1end_failed')],
                             (4, 5), ['refuse_commits'], 'soak_server'),
    'ticket_ignored': ([('job_held.sql', r'\n\s+AND pg_catalog\.substr\(i\.ticket, 4\) = pawl\.ticket\([^\n]+', '')],
                       (5,), ['freeze_remote'], 'soak_server'),
    'lease_forgotten': ([('claim_sweep.sql', r'WHERE \(l\.id, l\.token\) NOT IN [^\n]+', 'WHERE true')],
                        (2,), ['abandon_serve'], 'soak_server', 4, 12, (0.8, 1.6), True),
    'no_sweep': ([('claim_sweep.sql', r'WHERE e\.before < \$1::int4', 'WHERE false')], (11,), ['kill_worker'],
                 'soak_worker', 4, None, None, False, 1.5, 'has expired, and nobody swept it'),
}.items()}


def functions(name):
    """Functions of the database that the bug is in; a worker with it is built only if there is none."""
    return sorted({place for place, _, _ in PLANTS[name].edits if place.startswith('pawl.')})


def apply(name, path, text):
    """The text of a file or a function with the bug in it."""
    for place, pattern, replacement in PLANTS[name].edits:
        if place != os.path.basename(path):
            continue
        text, n = re.subn(pattern, replacement, text)
        if n == 0:
            sys.exit(f'plant.py: {name} does not apply to {path} any more: nothing matches {pattern!r}; adapt the plant')
    return text


def main(name, output, embed_sql, *paths):
    missing = {file for file, _, _ in PLANTS[name].edits} - {os.path.basename(path) for path in paths}
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
