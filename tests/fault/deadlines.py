"""deadlines: invariant 12: a job fails at its deadline, whatever it waits for, and not before. Pure; takes the history and `found`."""

import collections

from lanes import CLAIMS

LOST, DOUBLE, OTHER = 'lost', 'double', 'other'
SLACK_US = 1000
WAITS = ('lane', 'signal', 'children')


def check(history, found):
    deadlines, claims = {}, collections.defaultdict(list)
    rights = {}
    for row in history.trace:
        if row['what'] != 'job' or row['deadline_us'] is None:
            continue
        job = row['id']
        deadlines[job] = row['deadline_us']
        if row['statement'] in CLAIMS and row['old_token'] is None and row['token'] is not None:
            claims[job].append(row)
            rights[job, row['token']] = row
        elif row['op'] == 'UPDATE' and row['token'] is None and row['waits_for'] in WAITS and \
                (row['due_us'] is None or row['due_us'] > max(row['deadline_us'], row['at_us'])):
            found(12, f'job {job} waits beyond its deadline: {row}', LOST)
    for start in history.starts:
        claim = rights.get((start.id, start.token))
        if claim is not None and claim['since_us'] > claim['deadline_us'] + SLACK_US:
            found(12, f'job {start.id} was started {claim["since_us"] - claim["deadline_us"]} µs after its deadline: '
                      f'{start}', OTHER)
    for row in history.finished:
        job = row['id']
        if not row.get('late'):
            continue
        if job not in deadlines:
            found(12, f'job {job} failed by a deadline, and it has none')
        elif claims[job] and claims[job][-1]['at_us'] < deadlines[job]:
            found(12, f'job {job} failed by its deadline, which had not come: {claims[job][-1]}', OTHER)
