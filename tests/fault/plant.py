"""plant: puts a known bug into a copy of a source, so that a worker built from it can prove that the checker sees it.

usage: plant.py NAME OUTPUT.c EMBED-SQL FILE...

FILE: the sources that OUTPUT is made from: all statements of sql/query, or one C file. A plant that no longer applies
because the source has changed fails the build: a checker that is no longer checked is worth nothing. Bugs in functions of
the database need no worker of their own: they are put into the database of the run (pawl.NAME).
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
    'no_fence': ([('pawl.jobs_settle', r'x\.id = i\.id AND x\.token = i\.token FOR UPDATE', 'x.id = i.id FOR UPDATE'),
                  ('job_settle_done.sql', r'\n\s+AND j\.token = [^\n]+', '')],
                 (5,), ['freeze']),
    'send_before_commit': ([('ending.c', r'if \(batch->failed\) \{\n(\s+)end_failed',
                             r'if (batch->failed && !all_answered(batch)) {\n\1end_failed')],
                           (4, 5), ['refuse_commits']),
    'reap_by_id': ([('pawl.claims_sweep', r' AND x\.token = c\.token( FOR UPDATE SKIP LOCKED\) AS j\) AS l)', r'\1')],
                   (2,), ['kill_worker', 'freeze'], 'soak_worker', 10, 20, (0.4, 1), False, 4),
    'reap_alive': ([('pawl.claims_sweep', r'([cx])\.lease_until < pg_catalog\.clock_timestamp\(\)',
                     r"\1.lease_until < pg_catalog.clock_timestamp() + interval '1 hour'")],
                   (2,), []),
    'never_shrinks': ([('sweep.c', r'sweep->most > 1 \? sweep->most / 2 : 1', 'sweep->most')],
                      (11,), ['kill_worker', 'slow_sweeps'], 'soak_worker', 4, None, None, False, 1.5,
                      'has expired, and nobody swept it'),
    'claim_taken': ([('job_claim.sql', r'AND c\.token IS NULL', '')], (2,), []),
    'attempts_stand_still': ([('job_claim.sql', r'attempt = j\.attempt \+ 1', 'attempt = j.attempt')], (3,), []),
    'failed_forgotten': ([('pawl.jobs_end', r'WHERE (coalesce\(q\.keep_days, 7\) > 0 OR o\.watched)',
                           r"WHERE (\1) AND g.state <> 'failed'")],
                         (1,), [], 'soak_worker', 4, None, None, False, 1.5, 'was acknowledged and is gone'),
    # What writers commit late is looked for as if they had ended; without the look at everything, which would find it after all.
    'safe_too_early': ([('marks.c', r'uint64_t ended = writers_seen\([^;]+;', 'uint64_t ended = 0;'),
                        ('marks.c', r'm->oldest = writers_oldest', 'm->oldest = 0 * writers_oldest'),
                        ('marks.c', r'\n    look_below_any\(c, now_us\);', '')],
                       (11,), [], 'soak_worker', 20, 12, None, False, 1.5, 'is still waiting after attempt 0',
                       # Commits that take longer than two polls.
                       """CREATE CONSTRAINT TRIGGER later AFTER INSERT ON pawl.job DEFERRABLE INITIALLY DEFERRED
                          FOR EACH ROW WHEN (new.id % 40 = 0) EXECUTE FUNCTION soak.slow('1.5')"""),
    'low_passes_live': ([('claim_low.sql', r'SELECT pg_catalog\.min[^\n]+',
                          'SELECT NULL::int8 AS seq WHERE $1::int8 IS NOT NULL AND $2::int8 IS NOT NULL'),
                         ('claim_low_load.sql', r'SELECT l\.seq FROM',
                          "SELECT greatest(l.seq, pg_catalog.pg_sequence_last_value('pawl.claim_seq_seq')) AS seq FROM")],
                        (11,), ['kill_worker'], 'soak_worker', 10, 8, None, False, 1.5,
                        'has expired, and nobody swept it'),
    # The job is written down as over, and stays.
    'ended_twice': ([('pawl.jobs_end', r'DELETE FROM pawl\.job AS j\s+USING input AS e', 'UPDATE pawl.job AS j SET token = NULL FROM input AS e')],
                    (5,), [], 'soak_worker', 4, None, None, False, 1.5, 'ended for the second time'),
    'lane_let_in': ([('pawl.claim_lanes', r'WHEN r\.rank > rooms\[r\.lane\] THEN', 'WHEN r.rank > rooms[r.lane] + 1 THEN')], (6,), []),
    'guard_ignored': ([('pawl.guard_take', r'IF \(CASE WHEN held\.live_id', 'IF false AND (CASE WHEN held.live_id')],
                      (7,), []),
    'winner_unnamed': ([('pawl.guard_take', r'RETURN held\.job_id', 'RETURN new_id')], (7,), []),
    'child_counted_twice': ([('pawl.jobs_end', r'p\.children_left - c\.n', 'p.children_left - 2 * c.n')], (8,), []),
    'child_results_kept': ([('pawl.machines_settle', r"WHERE i\.progress AND i\.outcome <> 'wait'", 'WHERE false')], (8,), []),
    'consume_dropped': ([('pawl.machines_settle', r'i\.progress AND x\.key IS NULL AS eats', 'false AS eats'),
                         ('pawl.machines_settle', r'SET shown = true, consumed = true', 'SET shown = true')],
                        (9,), []),
    # The wait begins after a look at the inbox that is not looked at: what came since the claim wakes nobody.
    'wake_up_lost': ([('pawl.machines_settle', r'WHEN g\.more_came\s+OR EXISTS', 'WHEN false AND EXISTS')], (9,), []),
    'quorum_early': ([('pawl.jobs_end', r'p\.children_left <= p\.join_at', 'p.children_left <= p.join_at + 1')], (8,), []),
    # Children of an earlier join, which its parent did not wait for, count for the present one.
    'joins_mixed': ([('pawl.jobs_end', r'AND x\.joins = f\.join_of AND', 'AND'),
                     ('pawl.jobs_end', r' AND p\.joins = g\.join_of', '')], (8,), [], 'soak_worker', 4, 8),
    'rest_not_cancelled': ([('pawl.children_let_go', r'IF cancel THEN', 'IF false THEN'),
                            ('pawl.jobs_end', r'WHERE m\.cancel_rest\)', 'WHERE false)')], (8,), []),
    'orphans_forgotten': ([('pawl.orphans_end', r"IF noted = '{}' THEN", 'IF true THEN')], (11,), [], 'soak_worker', 4, None, None,
                          False, 1.5, 'an orphan is left'),
    'results_left': ([('pawl.jobs_end', r'AS m WHERE m\.joins > 0\)', 'AS m WHERE false)')], (11,), [],
                     'soak_worker', 4, None, None, False, 1.5, 'a result is left'),
    'machine_left': ([('pawl.jobs_end', r'WHERE g\.is_machine\)\)', 'WHERE g.is_machine)) AND m.joins > 0')],
                     (11,), [], 'soak_worker', 4, None, None, False, 1.5, 'a machine is left'),
    'overtaken': ([('pawl.claim_lanes', r'WHEN ordered\[r\.lane\] THEN', 'WHEN false THEN')], (6,), [],
                  'soak_worker', 4, None, None, False, 1.5, '',
                  # Later ones are more urgent, and more than a claim takes. A machine that is busy has no crowd of its own.
                  """INSERT INTO pawl.job (queue, kind, payload, priority, lane)
                     SELECT 'alpha', 'plain', convert_to('s0.' || g || ' 5', 'UTF8'), g / 201 * 9, 'row' || g % 20
                     FROM generate_series(1, 400) AS g"""),
    'rate_doubled': ([('pawl.lane_tokens', r'rate_per_s \* date_part', '2 * rate_per_s * date_part')],
                     (6,), [], 'soak_worker', 4, 12),
    'deadline_ignored': ([('pawl.machine_view', r'deadline_at <= pg_catalog\.now\(\)', 'false')], (12,), []),
    # In a server.
    'served_before_commit': ([('ending.c', r'if \(batch->failed\) \{\n(\s+)end_failed',
                               r'if (batch->failed && !all_answered(batch)) {\n\1end_failed')],
                             (4, 5), ['refuse_commits'], 'soak_server'),
    'ticket_ignored': ([('job_held.sql', r'\n\s+AND pg_catalog\.substr\(i\.ticket, 4\) = pawl\.ticket\([^\n]+', '')],
                       (5,), ['freeze_remote'], 'soak_server'),
    'lease_forgotten': ([('pawl.claims_sweep', r'WHERE \(SELECT true FROM pawl\.held AS h WHERE h\.job_id = f\.id[^\n]+', 'WHERE true')],
                        (2,), ['abandon_serve'], 'soak_server', 4, 12, (0.8, 1.6), True),
    'no_sweep': ([('pawl.claims_sweep', r'WHERE e\.before < most;', 'WHERE false;')], (11,), ['kill_worker'],
                 'soak_worker', 4, None, None, False, 1.5, 'has expired, and nobody swept it'),
}.items()}


def functions(name):
    """Functions of the database that the bug is in."""
    return sorted({place for place, _, _ in PLANTS[name].edits if place.startswith('pawl.')})


def files(name):
    """Sources that the bug is in: there is a program with it."""
    return {place for place, _, _ in PLANTS[name].edits} - set(functions(name))


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
    missing = files(name) - {os.path.basename(path) for path in paths}
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
