"""`pawl work --server`: jobs by a server's stream, outcomes by calls, and what happens when either side goes away."""

import json
import os
import signal
import socket
import subprocess

from authority import Authority
from harness import TIMEOUT_S, Scratch, run, until
from served import PAWL, Database, Served

# Runs until the file `go` is there, or the test is over and its directory with it.
HOLD = 'hold=touch begun.$PAWL_JOB_ID.$PAWL_JOB_ATTEMPT; while [ -e begun.$PAWL_JOB_ID.$PAWL_JOB_ATTEMPT ] && [ ! -e go ]; do sleep 0.02; done'


class Work:
    """One `pawl work --server`, in a directory of its own. It has no database."""

    def __init__(self, folder, address, *args, token=None):
        self.folder = folder
        env = {k: v for k, v in os.environ.items() if not k.startswith('PG') and k not in ('PAWL_DATABASE_URL', 'PAWL_TOKEN')}
        env.update({'PAWL_HOME': folder, **({'PAWL_TOKEN': token} if token else {})})
        with open(f'{folder}/err', 'ab') as err, open(f'{folder}/out', 'ab') as out:
            self.process = subprocess.Popen([PAWL, 'work', '--server', address, *args], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, cwd=folder, env=env)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def path(self, name):
        return os.path.join(self.folder, name)

    def has(self, name):
        return os.path.exists(self.path(name))

    def touch(self, name):
        with open(self.path(name), 'w', encoding='ascii'):
            pass

    def text(self, name):
        with open(self.path(name), encoding='utf-8') as f:
            return f.read()

    def said(self, event):
        return f'"event":"{event}"' in self.text('err')

    def stop(self, signum=signal.SIGTERM):
        self.process.send_signal(signum)
        return self.process.wait(TIMEOUT_S)


def state(db, job_id):
    return db.sql(f'SELECT state FROM pawl.jobs WHERE id = {job_id}')


def is_in(db, job_id, wanted):
    until(lambda: state(db, job_id) == wanted, f'job {job_id} is {wanted}, it is {state(db, job_id)}')


def enqueue(db, *args):
    return int(db.pawl('enqueue', *args).stdout.split()[0])


def failed(*args, token=None):
    """What a worker says that cannot begin; and its exit status."""
    with Scratch() as folder, Work(folder, *args, token=token) as work:
        status = work.process.wait(TIMEOUT_S)
        return status, work.text('err')


def test_outcomes():
    """what a command prints is the result, and its exit status decides, as with a database"""
    with Database() as db, Served(db) as server, Scratch() as folder:
        with Work(folder, server.address, '-c', '8', '-e', 'good=cat', '-e', 'bad=echo no >&2; exit 65',
                  '-e', 'later=exit 1') as work:
            good, bad = enqueue(db, 'good', '{"a":1}'), enqueue(db, 'bad')
            later = enqueue(db, 'later')
            is_in(db, good, 'done')
            is_in(db, bad, 'failed')
            is_in(db, later, 'retrying')
            assert db.sql(f"SELECT convert_from(result, 'UTF8') FROM pawl.history WHERE id = {good}") == '{"a":1}'
            until(lambda: f'job {good} good done' in work.text('out'), 'the worker tells of it')
            assert work.stop() == 0
            assert 'PAWL_DATABASE_URL' not in work.text('err')


def test_many():
    """a thousand jobs are run once each, in far fewer calls"""
    with Database() as db, Served(db) as server, Scratch() as folder:
        db.sql("INSERT INTO pawl.job (queue, kind, payload) SELECT 'default', 'n', '1' FROM generate_series(1, 1000)")
        with Work(folder, server.address, '-c', '4', '--prefetch', '100', '--stats', '-e', 'n=true') as work:
            until(lambda: db.sql('SELECT count(*) FROM pawl.history') == '1000', 'all are done')
            assert db.sql("SELECT count(*) FROM pawl.history WHERE attempt = 1 AND state = 'done'") == '1000'
            assert work.stop() == 0
            assert '"done":1000' in work.text('err')


def test_machine():
    """a machine goes on by the server: next, await with a signal, children, and the state between"""
    steps = r'''m=case "$PAWL_JOB_STEP" in
"") echo '{"next":"ask","state":{"n":1}}' >&3;;
ask) echo '{"await":["paid"],"next":"split","state":{"n":2}}' >&3;;
split) echo "$PAWL_JOB_SIGNALS" > signals; echo '{"spawn":[{"kind":"c"},{"kind":"c"}],"next":"end"}' >&3;;
end) echo "$PAWL_JOB_CHILDREN" > children; echo "$PAWL_JOB_STATE";;
esac'''
    with Database() as db, Served(db) as server, Scratch() as folder:
        with Work(folder, server.address, '-e', steps, '-e', 'c=echo 7') as work:
            machine = enqueue(db, 'm')
            is_in(db, machine, 'waiting')
            db.pawl('signal', 'send', str(machine), 'paid', '{"eur":5}')
            is_in(db, machine, 'done')
            assert db.sql(f"SELECT convert_from(result, 'UTF8') FROM pawl.history WHERE id = {machine}") == '{"n":2}'
            signals, children = json.loads(work.text('signals')), json.loads(work.text('children'))
            assert [(s['name'], s['payload']) for s in signals] == [('paid', {'eur': 5})] and signals[0]['id'] > 0
            assert [(c['kind'], c['state'], c['result']) for c in children] == [('c', 'done', 7)] * 2
            assert work.stop() == 0


def test_stop():
    """SIGTERM: what runs is finished and reported, what was not started goes back"""
    with Database() as db, Served(db) as server, Scratch() as folder:
        first = enqueue(db, 'hold', '--count', '3')
        with Work(folder, server.address, '-c', '1', '--prefetch', '1', '-e', HOLD) as work:
            until(lambda: work.has(f'begun.{first}.1'), 'the first one runs')
            work.process.send_signal(signal.SIGTERM)
            until(lambda: work.said('worker_drain'), 'it drains')
            assert state(db, first) == 'running'
            work.touch('go')
            assert work.process.wait(TIMEOUT_S) == 0
        assert state(db, first) == 'done'
        for other in (first + 1, first + 2):
            is_in(db, other, 'ready')
            assert db.sql(f'SELECT attempt FROM pawl.job WHERE id = {other}') == '0'


def test_cancel():
    """a job that is cancelled while it runs is stopped at once"""
    with Database() as db, Served(db) as server, Scratch() as folder:
        with Work(folder, server.address, '-e', 'long=touch begun; exec sleep 60') as work:
            long = enqueue(db, 'long')
            until(lambda: work.has('begun'), 'it runs')
            db.pawl('job', 'cancel', str(long))
            is_in(db, long, 'cancelled')
            assert work.stop() == 0


def test_server_killed():
    """kill -9 of the server while a job runs: the next server takes it up, and it is done once"""
    with Database() as db, Scratch() as folder:
        address = f'unix:{folder}/s'  # a port could be somebody else's when the second server comes
        server = Served(db, listen=(address,))
        first = enqueue(db, 'hold', '--count', '2')
        with Work(folder, address, '-c', '2', '-e', HOLD, '-e', 'after=true') as work:
            until(lambda: work.has(f'begun.{first}.1') and work.has(f'begun.{first + 1}.1'), 'both run')
            server.process.kill()
            server.close()
            until(lambda: work.said('channel_down'), 'the worker has noticed')
            with Served(db, listen=(address,)):
                until(lambda: work.text('err').count('"event":"stream_open"') == 2, 'it is connected again')
                work.touch('go')
                is_in(db, first, 'done')
                is_in(db, first + 1, 'done')
                assert db.sql('SELECT max(attempt), count(*) FROM pawl.history') == '1|2'
                is_in(db, enqueue(db, 'after'), 'done')
                assert work.stop() == 0


def test_report_waits():
    """an outcome that no server can take waits until there is one"""
    with Database() as db, Scratch() as folder:
        address = f'unix:{folder}/s'  # a port could be somebody else's when the second server comes
        server = Served(db, listen=(address,))
        held = enqueue(db, 'hold')
        with Work(folder, address, '-e', HOLD + '; touch ended') as work:
            until(lambda: work.has(f'begun.{held}.1'), 'it runs')
            server.process.kill()
            server.close()
            work.touch('go')
            until(lambda: work.has('ended') and work.said('channel_down'), 'it has ended')
            with Served(db, listen=(address,)):
                is_in(db, held, 'done')
                assert db.sql('SELECT attempt FROM pawl.history') == '1'
                assert work.stop() == 0


def test_server_restarted():
    """a server that is told to go gives its worker to the next, and nothing is run twice"""
    with Database() as db, Scratch() as folder:
        address = f'unix:{folder}/s'  # a port could be somebody else's when the second server comes
        server = Served(db, '--drain', '1s', listen=(address,))
        held = enqueue(db, 'hold')
        with Work(folder, address, '-c', '2', '-e', HOLD, '-e', 'after=true') as work:
            until(lambda: work.has(f'begun.{held}.1'), 'it runs')
            server.close()
            with Served(db, listen=(address,)):
                is_in(db, enqueue(db, 'after'), 'done')
                work.touch('go')
                is_in(db, held, 'done')
                assert db.sql(f'SELECT attempt FROM pawl.history WHERE id = {held}') == '1'
                assert work.stop() == 0


def test_worker_killed():
    """kill -9 of the worker: its job is run by another after the lease"""
    with Database() as db, Served(db, '--lease', '1s') as server, Scratch() as one, Scratch() as two:
        with Work(one, server.address, '-e', HOLD) as work:
            held = enqueue(db, 'hold')
            until(lambda: work.has(f'begun.{held}.1'), 'it runs')
            work.process.kill()
            with Work(two, server.address, '-e', HOLD) as other:
                other.touch('go')
                is_in(db, held, 'done')
                assert int(db.sql('SELECT attempt FROM pawl.history')) >= 2
                assert other.stop() == 0


def test_enqueue():
    """pawl enqueue --server: one job, many, a file; all or none; and a server that goes away in the middle"""
    with Database() as db, Served(db, '--tokens', 'required') as server:
        env = {**os.environ, 'PAWL_TOKEN': db.token('p', '--scope', 'enqueue')}
        env.pop('PAWL_DATABASE_URL', None)

        def enqueue_by(*args, given=None):
            return subprocess.run([PAWL, 'enqueue', '--server', server.address, *args], input=given, capture_output=True,
                                  text=True, env=env, check=False)
        one = enqueue_by('mail', '{"a":1}', '-Q', 'q', '-p', '9', '--delay', '1h', '--unique-key', 'u', '--tag', 't')
        assert one.returncode == 0, one.stderr
        assert db.sql("SELECT queue, kind, priority, state, convert_from(payload, 'UTF8') FROM pawl.jobs "
                      f'WHERE id = {one.stdout}') == 'q|mail|9|scheduled|{"a":1}'
        again = enqueue_by('mail', '-Q', 'q', '--unique-key', 'u')
        assert again.stdout == one.stdout
        assert enqueue_by('many', '--count', '1000').returncode == 0
        assert db.sql("SELECT count(*) FROM pawl.job WHERE kind = 'many'") == '1000'
        more = enqueue_by('more', '--count', '1001')
        assert more.returncode == 10 and 'Nothing was enqueued' in more.stderr, more.stderr
        lines = enqueue_by('--from-file', '-', given='{"kind":"f","payload":1}\n{"kind":"f","payload":2}\n')
        assert len(lines.stdout.split()) == 2, lines.stderr
        assert enqueue_by('raw', 'no json', '--bytes').returncode == 0
        wrong = enqueue_by('--from-file', '-', given='{"kind":"f"}\n{"kind":"a b"}\n')
        assert wrong.returncode == 2 and db.sql("SELECT count(*) FROM pawl.job WHERE kind IN ('f', 'more')") == '2'
        env.pop('PAWL_TOKEN')
        assert enqueue_by('x').returncode == 5


def test_token():
    """a worker needs a token with the right to work, and says what is wrong otherwise"""
    with Database() as db, Served(db, '--tokens', 'required') as server, Scratch() as folder:
        status, said = failed(server.address, '-e', 'x=true')
        assert status == 5 and 'UNAUTHENTICATED' in said and 'pawl token create' in said, (status, said)
        status, said = failed(server.address, '-e', 'x=true', token='pawl_nonsense')
        assert status == 5 and 'UNAUTHENTICATED' in said, (status, said)
        status, said = failed(server.address, '-e', 'x=true', token=db.token('p', '--scope', 'enqueue'))
        assert status == 6 and 'PERMISSION_DENIED' in said, (status, said)
        with open(f'{folder}/token', 'w', encoding='ascii') as f:
            f.write(db.token('w', '--scope', 'work') + '\n')
        with Work(folder, server.address, '--token-file', f'{folder}/token', '-e', 'x=true') as work:
            is_in(db, enqueue(db, 'x'), 'done')
            assert work.stop() == 0


def test_tls():
    """TLS: the server's certificate is checked, ours is shown, and a mismatch is said in words"""
    with Database() as db, Scratch() as folder:
        ours, others = Authority(folder, 'ours'), Authority(folder, 'others')
        certificate, key = ours.issue('server', '/CN=server')
        mine, my_key = ours.issue('worker', '/CN=worker', serial=2)
        with Served(db, '--tls-cert', certificate, '--tls-key', key, '--tls-ca', ours.certificate) as server:
            tls = ['--tls-ca', ours.certificate, '--tls-cert', mine, '--tls-key', my_key, '-e', 'x=true']
            with Work(folder, f'https://{server.address}', *tls) as work:
                is_in(db, enqueue(db, 'x'), 'done')
                assert work.stop() == 0
            status, said = failed(f'https://{server.address}', '--tls-ca', others.certificate, '-e', 'x=true')
            assert status == 4 and 'does not hold' in said and '--tls-ca' in said, (status, said)
            status, said = failed(server.address, '-e', 'x=true')
            assert status == 4 and 'TLS' in said, (status, said)
            status, said = failed(server.address, '--tls-ca', f'{folder}/none', '-e', 'x=true')
            assert status == 2 and 'could not read the authority' in said, (status, said)
        with Served(db) as server:
            status, said = failed(server.address, '--tls-ca', ours.certificate, '-e', 'x=true')
            assert status == 4 and 'TLS' in said, (status, said)


def test_once():
    """with --once it runs what is due, also what its own jobs make, and ends; also when there is nothing"""
    with Database() as db, Served(db) as server, Scratch() as folder:
        with Work(folder, server.address, '--once', '-e', 'x=true') as work:
            assert work.process.wait(TIMEOUT_S) == 0
            assert 'nothing was due' in work.text('err')
        for _ in range(5):
            enqueue(db, 'x')
        enqueue(db, 'twice')
        enqueue(db, 'x', '--delay', '1h')
        again = 'twice=[ $PAWL_JOB_ATTEMPT = 2 ] || { echo \'{"retry":"again","delay_ms":0}\' >&3; }'
        with Work(folder, server.address, '--once', '-c', '2', '-e', 'x=true', '-e', again) as work:
            assert work.process.wait(TIMEOUT_S) == 0, work.text('err')
        assert db.sql("SELECT count(*), sum(attempt) FROM pawl.history WHERE state = 'done'") == '6|7'
        assert db.sql('SELECT count(*) FROM pawl.job') == '1'


def test_trouble():
    """a server that is not there, or is something else, is named with what to do"""
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(('127.0.0.1', 0))
        port = taken.getsockname()[1]
        status, said = failed(f'127.0.0.1:{port}', '-e', 'x=true')
    assert status == 4 and f'could not connect to the server at 127.0.0.1:{port}' in said, (status, said)
    assert 'Connection refused' in said and 'Is `pawl serve` running there?' in said
    status, said = failed('unix:/nonexistent/socket', '-e', 'x=true')
    assert status == 4 and 'No such file' in said, (status, said)
    status, said = failed('127.0.0.1:99999', '-e', 'x=true')
    assert status == 2 and 'between 1 and 65535' in said, (status, said)
    status, said = failed('127.0.0.1:1', '--unprepared', '-e', 'x=true')
    assert status == 2 and '--unprepared does not go with --server' in said, (status, said)


run(globals())
