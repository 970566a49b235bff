"""A connection pooler between a worker or a server and PostgreSQL, without a word about it: the real PgBouncer."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from stage import DATABASE, Cluster, Pooler, throwaway  # noqa: E402

PAWL = sys.argv[1] + '/src/cli/pawl'
WAIT_S = 60
JOBS = 12
SOON_S = 3.0  # polled every second at the latest, on a busy machine


class Stage:
    def __init__(self, cluster, directory):
        self.cluster = cluster
        self.directory = directory
        self.pooler = None
        self.running = []

    def pool(self, name, mode='transaction'):
        self.pooler = Pooler(self.cluster, f'{self.directory}/{name}', mode)
        self.pooler.start()
        self.until(lambda: os.path.exists(f'{self.pooler.directory}/.s.PGSQL.5432'), 'PgBouncer listens')

    def conninfo(self):
        return f'host={self.pooler.directory} user={throwaway.USER} dbname={DATABASE}'

    def run(self, name, *args):
        log = f'{self.directory}/{name}.log'
        with open(log, 'wb') as f:
            self.running.append(subprocess.Popen([PAWL, *args], stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                                                 env={**os.environ, 'PAWL_DATABASE_URL': self.conninfo()}))
        return lambda: open(log, encoding='utf-8', errors='replace').read()

    def enqueue(self, kind):
        done = throwaway.run_quietly([PAWL, 'enqueue', kind, '--db', self.cluster.conninfo(DATABASE)])
        assert done.returncode == 0, done.stdout
        return int(done.stdout)

    def state(self, job):
        return (self.cluster.ask(f'select state from pawl.jobs where id = {job}') or [None])[0]

    def one(self, kind):
        """How long a job takes from its enqueue to its end."""
        began = time.monotonic()
        job = self.enqueue(kind)
        self.until(lambda: self.state(job) == 'done', f'job {job} is done')
        return time.monotonic() - began

    def mix(self, stop):
        """Others whose transactions are in between, so that sessions change hands."""
        while not stop.is_set():
            throwaway.run_quietly([self.cluster.bindir + '/psql', '-X', '-q', '-d', self.conninfo(), '-c', 'select pg_sleep(0.02)'])

    @staticmethod
    def until(true, what):
        end = time.monotonic() + WAIT_S
        while not true():
            assert time.monotonic() < end, f'never happened: {what}'
            time.sleep(0.02)

    def forgotten(self):
        """Errors about prepared statements in PostgreSQL's log."""
        with open(self.cluster.log, encoding='utf-8', errors='replace') as f:
            return len(re.findall(r'ERROR: +prepared statement', f.read()))

    def end(self):
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait(WAIT_S)
        self.running = []
        self.pooler.kill()
        self.pooler = None


def said(log):
    """Lines about a pooler."""
    return [line for line in log().splitlines() if re.search(r'\bpooler\b', line.split(' mode=')[0]) and 'mode' in line]


def worker_in_transaction_mode(s):
    """behind a pooler in transaction mode a worker prepares nothing, polls, and says so once"""
    s.pool('mixed')
    before = s.forgotten()
    log = s.run('worker', 'work', '--exec', 'k=true', '--stats')
    stop = threading.Event()
    others = [threading.Thread(target=s.mix, args=(stop,)) for _ in range(3)]
    for other in others:
        other.start()
    try:
        took = [s.one('k') for _ in range(JOBS)]
    finally:
        stop.set()
        for other in others:
            other.join()
    assert len(said(log)) == 1 and 'transaction' in said(log)[0] and '--unprepared' in said(log)[0], log()
    assert s.forgotten() == before, f'{s.forgotten() - before} errors about prepared statements'
    assert max(took) < SOON_S, f'took up to {max(took):.1f} s'
    s.end()
    counted = log()
    assert re.search(r'notify_wakeups\W+0\b', counted), counted


def worker_without_others(s):
    """it is noticed without anybody else's transactions, too"""
    s.pool('alone')
    log = s.run('alone', 'work', '--exec', 'k=true')
    s.one('k')
    assert len(said(log)) == 1 and 'transaction' in said(log)[0], log()


def server_in_transaction_mode(s):
    """so does a server, and its workers get their jobs"""
    s.pool('served')
    before = s.forgotten()
    address = f'unix:{s.directory}/serve.sock'
    log = s.run('server', 'serve', '--listen', address)
    s.until(lambda: os.path.exists(f'{s.directory}/serve.sock'), 'the server listens')
    s.run('remote', 'work', '--server', address, '--exec', 'r=true')
    took = [s.one('r') for _ in range(JOBS)]
    assert len(said(log)) == 1 and 'transaction' in said(log)[0], log()
    assert s.forgotten() == before, f'{s.forgotten() - before} errors about prepared statements'
    assert max(took[1:]) < SOON_S, f'took up to {max(took):.1f} s'


def worker_in_session_mode(s):
    """behind one in session mode it prepares and is woken, as without"""
    s.pool('session', 'session')
    log = s.run('session', 'work', '--exec', 'k=true', '--stats')
    for _ in range(JOBS):
        s.one('k')
    s.end()
    assert not any('transaction' in line for line in said(log)), log()
    assert not re.search(r'notify_wakeups\W+0\b', log()), log()


def main():
    if not Pooler.program():
        print('1..0 # SKIP pgbouncer is not installed')
        return 0
    directory = tempfile.mkdtemp(prefix='pool-', dir=os.environ.get('PAWL_TEST_TMP', '/tmp'))
    os.chmod(directory, 0o755)
    cluster = Cluster(directory)
    cases = [worker_in_transaction_mode, worker_without_others, worker_in_session_mode]
    if throwaway.run_quietly([PAWL, 'serve', '--help']).returncode == 0:
        cases.append(server_in_transaction_mode)
    failed = 0
    try:
        cluster.start()
        cluster.prepare(PAWL)
        for n, case in enumerate(cases, 1):
            s = Stage(cluster, directory)
            try:
                case(s)
                print(f'ok {n} - {case.__doc__}', flush=True)
            except AssertionError as error:
                failed += 1
                print(f'not ok {n} - {case.__doc__}\n' + '\n'.join('# ' + line for line in str(error).splitlines()[-40:]), flush=True)
            finally:
                if s.pooler:
                    s.end()
        print(f'1..{len(cases)}')
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
