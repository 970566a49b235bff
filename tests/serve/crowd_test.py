"""Many workers on streams, one that stands still, and a database that is restarted under them."""

import os
import signal
import subprocess
import sys
import time

from dispatch_test import enqueue
from harness import BUILD, TIMEOUT_S, Scratch, patiently, run, until
from served import PAWL, Database, Served, pb, psql
from streaming import Worker

OK = pb.ITEM_STATUS_OK


SLEEPER = '''
import sys, time
sys.path.insert(0, {tests!r})
sys.argv = ['x', {build!r}]
from streaming import Worker
worker = Worker({address!r}, worker_id='sleeper')
job = worker.job()
print(job.job_id, flush=True)
sys.stdin.readline()
print(worker.done(job).status, flush=True)
print(worker.done(worker.job()).status, flush=True)
'''


def test_stopped_worker():
    """a worker that stands still loses its job to others, and works on when it goes on"""
    def scene(lease):
        with Database() as db, Served(db, '--lease', lease) as server:
            text = SLEEPER.format(tests=os.path.dirname(os.path.abspath(__file__)), build=BUILD, address=server.address)
            with subprocess.Popen([sys.executable, '-c', text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as sleeper:
                job_id, = enqueue(db, more=", retry => 'exponential', retry_base => '10ms'")
                assert sleeper.stdout.readline().strip() == str(job_id)
                sleeper.send_signal(signal.SIGSTOP)
                with Worker(server.address) as other:
                    job = other.job()
                    assert (job.job_id, job.attempt) == (job_id, 2)
                    assert other.done(job).status == OK
                sleeper.send_signal(signal.SIGCONT)
                sleeper.stdin.write('go on\n')
                sleeper.stdin.flush()
                assert sleeper.stdout.readline().strip() == str(pb.ITEM_STATUS_STALE)
                enqueue(db)
                assert sleeper.stdout.readline().strip() == str(OK)
                assert sleeper.wait(TIMEOUT_S) == 0
            assert db.sql(f'SELECT state, attempt FROM pawl.history WHERE id = {job_id}') == 'done|2'
    patiently(scene, '2s', '6s', '18s')


class Cluster:
    """A PostgreSQL of its own, which may be restarted."""

    def __init__(self, directory):
        self.env = {**os.environ, 'PAWL_HOME': os.path.join(directory, 'home')}
        self.env.pop('PAWL_DATABASE_URL', None)
        os.chmod(directory, 0o755)
        self.pawl('db', 'start')
        self.pawl('db', 'migrate')
        status = self.pawl('db', 'status')
        self.conninfo = next(line.split(':', 1)[1].strip() for line in status.splitlines() if line.startswith('conninfo'))

    def pawl(self, *args):
        done = subprocess.run([PAWL, *args], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sql(self, text):
        return psql(self.conninfo, text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pawl('db', 'stop')


def test_database_restart():
    """a restart of the database with a hundred streams open costs no stream, no job and no outcome"""
    with Scratch() as scratch, Cluster(scratch) as db, Served(db, '--lease', '120s') as server:
        until(lambda: server.get('/ready')[0] == 200, 'the server is ready')
        workers = [Worker(server.address, credits=2) for _ in range(100)]
        enqueue(db, 150)
        until(lambda: sum(len(w.got) for w in workers) == 150, 'the jobs are with the workers')
        db.pawl('db', 'stop')
        until(lambda: server.get('/ready')[0] == 503, 'it says that it is not ready')
        waiting = [w.calls.later('ReportResult', worker_id=w.id, reports=[
            pb.Report(job_id=j.job_id, token=j.token, done=pb.DoneOutcome()) for j in w.got]) for w in workers]
        time.sleep(0.5)
        assert not any(call.done() for call in waiting)  # nothing is acknowledged that is not committed
        db.pawl('db', 'start')
        answers = [a for call in waiting for a in call.result().answers]
        assert len(answers) == 150 and all(a.status == OK for a in answers)
        until(lambda: server.get('/ready')[0] == 200, 'it is ready again')
        enqueue(db, 100)
        until(lambda: sum(len(w.got) for w in workers) == 250, 'new jobs come by the same streams')
        assert not any(w.over.is_set() for w in workers)
        assert db.sql("SELECT count(*), max(attempt) FROM pawl.history") == '150|1'
        for worker in workers:
            worker.close()


def quiet(db, server, seconds=6, windows=10):
    """Some window of so many seconds has at most two statements in each. The first ones may have more: the first looks, the list
    of who is there, and a vacuum of the database's own. One who asks too often does so in all of them."""
    seen = []
    for _ in range(windows):
        statements, transactions = cost(db, server)
        start = time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - start
        after = cost(db, server)
        asked, committed = after[0] - statements, after[1] - transactions
        seen.append((asked, committed, round(took, 1)))
        if asked <= 2 * took and committed <= 2 * took + 2:  # with the two of this test
            return
    raise AssertionError(f'statements, transactions, seconds: {seen}')


def cost(db, server):
    committed = int(db.sql('SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()'))
    return server.metric('pawl_engine_statements_total'), committed


def test_thousand_idle():
    """a thousand idle workers cost at most two statements in a second, and less than 50 MB"""
    with Database() as db, Served(db) as server, server.calls(options=[('grpc.max_concurrent_streams', 1000)]) as calls:
        before = rss_kb(server)
        channels = [server.calls() for _ in range(20)]
        streams = [channels[i % 20].stream(kinds=['k', 'other'], worker_id=f'w{i}', credits=4, worker_name=f'worker {i}')
                   for i in range(1000)]
        for stream in streams:
            assert next(stream).WhichOneof('message') == 'opened'
        quiet(db, server)
        assert server.metric('pawl_workers') == 1000
        used = rss_kb(server)
        assert used < 50 * 1024 or 'ASAN_OPTIONS' in os.environ, f'{before} kB before, {used} kB with a thousand'
        # And one of them gets the next job, at once: the server is called, and does not wait for its next look.
        called = server.metric('pawl_engine_notify_wakeups_total')
        enqueue(db, 3)
        until(lambda: db.sql('SELECT count(*) FROM pawl.job WHERE token IS NOT NULL') == '3', 'the jobs are claimed')
        until(lambda: server.metric('pawl_engine_notify_wakeups_total') > called, 'it was called')
        assert calls.Stats().workers
        for channel in channels:
            channel.channel.close()


def rss_kb(server):
    with open(f'/proc/{server.process.pid}/status', encoding='ascii') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))


if __name__ == '__main__':
    run(globals())
