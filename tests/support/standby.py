"""Runs a test on a PostgreSQL of its own that has a synchronous standby: every commit waits until the standby has its log.

usage: standby.py PROGRAM [ARGUMENT...]

The standby is a pg_receivewal, which writes the log down, says so, and can be stopped at any moment (SIGSTOP): then no
commit is confirmed until it goes on (SIGCONT). Whatever the test does, it goes on at the end. Beside what tools/run-tests
gives to every test, which here means that PostgreSQL, the program sees

    PAWL_TEST_STANDBY   the process id of the standby
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), '../../tools'))

from throwaway import Cluster, Failure, Interrupted, USER, postgresql_bindir  # noqa: E402

NAME = 'standby'
READY_S = 60


class Standby:
    def __init__(self, cluster, folder):
        os.mkdir(folder)
        with open(folder + '.log', 'wb') as log:
            self.process = subprocess.Popen(
                ['setpriv', '--pdeathsig=KILL', cluster.bindir + '/pg_receivewal', '-D', folder, '--synchronous', '--no-loop',
                 '-d', f'host={cluster.sockets} user={USER} application_name={NAME}'],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.log = folder + '.log'
        deadline = time.monotonic() + READY_S
        while cluster.psql('postgres', 'select count(*) from pg_stat_replication '
                           f"where application_name = '{NAME}' and state = 'streaming'").stdout.strip() != '1':
            if self.process.poll() is not None or time.monotonic() > deadline:
                with open(self.log, encoding='utf-8', errors='replace') as f:
                    raise Failure('the standby did not start:\n' + f.read())
            time.sleep(0.02)

    def stop(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait()


def run(command, directory):
    cluster = Cluster(directory)
    cluster.more_settings = {'autovacuum': 'off', 'wal_level': 'replica', 'max_wal_senders': '4'}
    standby = None
    try:
        cluster.start()
        cluster.make_template(os.environ['PAWL_TEST_BIN'])
        standby = Standby(cluster, directory + '/standby')
        cluster.psql('postgres', f"alter system set synchronous_standby_names = '{NAME}'")
        cluster.psql('postgres', 'select pg_reload_conf()')
        deadline = time.monotonic() + READY_S
        while cluster.psql('postgres', 'select sync_state from pg_stat_replication').stdout.strip() != 'sync':
            if time.monotonic() > deadline:
                raise Failure('the standby is not synchronous:\n' + cluster.tail())
            time.sleep(0.02)
        env = {**os.environ, 'PAWL_TEST_DB': cluster.conninfo('postgres'), 'PAWL_TEST_STANDBY': str(standby.process.pid)}
        return subprocess.run(command, env=env, check=False).returncode
    finally:
        if standby:
            cluster.psql('postgres', 'alter system reset synchronous_standby_names', check=False)
            standby.stop()
        cluster.stop()


def interrupt(number, _frame):
    raise Interrupted(number)


def main():
    # A test that takes too long is terminated: nothing of it may stay.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    # A socket's path has at most 107 bytes: no long TMPDIR.
    if not os.access(postgresql_bindir() + '/pg_receivewal', os.X_OK):
        print('1..0 # SKIP this PostgreSQL comes without pg_receivewal')
        return 0
    directory = tempfile.mkdtemp(prefix='pawl-', dir='/tmp')
    os.chmod(directory, 0o755)
    try:
        return run(sys.argv[1:], directory)
    except (Failure, Interrupted) as failure:
        print(f'standby: {failure}', file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
