"""tickets: workers without a database write tickets where others write the tokens of their claims: the attempt (2 bytes),
steps under the same claim (1), and 13 of SHA-256(token, job, step). From the trace it is known which tickets there can
be; here they are exchanged for their tokens. Pure.

A ticket that belongs to no claim stays what it is, and no rule of the checker finds a right for it."""

import hashlib
import uuid

PREFIX = 3


def ticket(token, job, step):
    """What is behind the prefix."""
    text = uuid.UUID(token).bytes + job.to_bytes(8, 'big') + (step or '').encode()
    return hashlib.sha256(text).digest()[:16 - PREFIX]


def attempt(text):
    return int.from_bytes(uuid.UUID(text).bytes[:2], 'big')


def exchange(history):
    """Starts, ends and reports under their tokens, and which (job, token) were run without a database."""
    named = {(event.id, event.token) for event in history.starts + history.ends + history.reports}
    jobs = {job for job, _ in named}
    known = {}
    own = set()
    for row in history.trace:
        if row['what'] != 'job' or row['token'] is None or row['id'] not in jobs:
            continue
        own.add((row['id'], row['token']))
        if is_uuid(row['token']):
            known[row['id'], ticket(row['token'], row['id'], row['step'])] = row['token']
    remote = set()

    def token_of(event):
        if (event.id, event.token) in own or not is_uuid(event.token):
            return event
        token = known.get((event.id, uuid.UUID(event.token).bytes[PREFIX:]), event.token)
        remote.add((event.id, token))
        return event._replace(token=token)
    history.starts = [token_of(start) for start in history.starts]
    history.ends = [token_of(end) for end in history.ends]
    history.reports = [token_of(report) for report in history.reports]
    return remote


def is_uuid(text):
    return len(text) == 36  # made-up histories have short names for theirs
