"""What /ready and the health service say while the database answers, and does not commit."""

import contextlib
import os
import shutil
import subprocess
import tempfile

import grpc

from harness import TIMEOUT_S, run, until
import health_pb2 as health
from served import SERVER_DB, Database, Served, pb, psql


def is_serving(server):
    """What grpc.health.v1 says."""
    with grpc.insecure_channel(server.address, options=[('grpc.use_local_subchannel_pool', 1)]) as channel:
        check = channel.unary_unary('/grpc.health.v1.Health/Check', request_serializer=health.HealthCheckRequest.SerializeToString,
                                    response_deserializer=health.HealthCheckResponse.FromString)
        return check(health.HealthCheckRequest(), timeout=TIMEOUT_S).status == health.HealthCheckResponse.SERVING


def ready(server):
    until(lambda: server.get('/ready') == (200, 'ready\n'), 'it is ready')
    assert is_serving(server)


def not_ready(server, why):
    until(lambda: server.get('/ready') == (503, f'not ready: {why}\n'), f'it is not ready: {why}')
    assert not is_serving(server)
    assert server.get('/health')[0] == 200  # it lives, and restarting it would not help


REFUSE = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '{code}'; END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION public.refuse();
"""


def refusing(db, code, table='pawl.worker'):
    db.sql(REFUSE.format(code=code, table=table))


def accepting(db):
    db.sql('DROP FUNCTION public.refuse() CASCADE')


def test_idle():
    """a server that nobody asks anything notices that nothing can be committed, and that it can again"""
    with Database() as db, Served(db) as server:
        ready(server)
        for code, why in (('53100', 'the database has no space left on its disk'),
                          ('25006', 'the database takes no writes (read-only)'),
                          ('58030', 'the database has trouble with its files')):
            refusing(db, code)
            not_ready(server, why)
            accepting(db)
            ready(server)
        # What is about a statement is not about the database.
        refusing(db, '40001')
        with server.calls() as calls:
            assert calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK'
        assert server.get('/ready')[0] == 200
        accepting(db)


def test_busy():
    """a server whose producers are refused for want of space says so at once"""
    with Database() as db, Served(db) as server, server.calls() as calls:
        ready(server)
        refusing(db, '53100')
        refusals = 'CREATE TRIGGER refuse_jobs BEFORE INSERT ON pawl.job FOR EACH STATEMENT EXECUTE FUNCTION public.refuse()'
        db.sql(refusals)
        status, text = calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])
        assert status == 'RESOURCE_EXHAUSTED' and 'nothing was accepted' in text, (status, text)
        not_ready(server, 'the database has no space left on its disk')
        accepting(db)
        ready(server)
        assert calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK'


def test_read_only():
    """a database that was made read-only is noticed, and that it takes writes again"""
    with Database() as db, Served(db) as server:
        ready(server)
        for setting in ('on', 'off'):
            psql(SERVER_DB, f'ALTER DATABASE {db.name} SET default_transaction_read_only = {setting}')
            db.sql('BEGIN READ WRITE; SELECT pg_terminate_backend(pid) FROM pg_stat_activity'
                   ' WHERE datname = current_database() AND pid <> pg_backend_pid(); COMMIT')
            until(lambda: server.get('/ready')[0] == (503 if setting == 'on' else 200), f'read-only {setting} is noticed')


@contextlib.contextmanager
def small_disk(megabytes):
    """A file system of its own for a database, full when wanted."""
    owner = os.stat(psql(SERVER_DB, 'SHOW data_directory'))
    folder = tempfile.mkdtemp(prefix='full-', dir=os.environ['PAWL_TEST_TMP'])
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={megabytes}m,mode=0700,uid={owner.st_uid},gid={owner.st_gid}', 'pawl-test', folder],
                   check=True, stderr=subprocess.DEVNULL)
    try:
        yield folder
    finally:
        subprocess.run(['umount', '-l', folder], check=True)
        shutil.rmtree(folder)


def fill(path):
    with open(path, 'wb', buffering=0) as f, contextlib.suppress(OSError):
        for size in (1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    f.write(bytes(size))


def test_full_disk():
    """a disk that is full is noticed by an idle server, and that there is space again"""
    if os.geteuid() != 0:
        return 'only root can mount a small file system'
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(small_disk(96))
        except (OSError, subprocess.CalledProcessError):
            return 'nothing can be mounted here'
        place = os.path.join(folder, 'space')
        os.mkdir(place, 0o700)
        owner = os.stat(folder)
        os.chown(place, owner.st_uid, owner.st_gid)
        name = 'small_' + os.urandom(6).hex()
        psql(SERVER_DB, f"CREATE TABLESPACE {name} LOCATION '{place}'")
        stack.callback(psql, SERVER_DB, f'DROP TABLESPACE {name}')
        db = stack.enter_context(Database())
        psql(SERVER_DB, f'ALTER DATABASE {db.name} SET TABLESPACE {name}')
        with Served(db) as server, server.calls() as calls:
            ready(server)
            accepted = calls.Enqueue(jobs=[pb.NewJob(kind='k')]).accepted[0].job_id
            fill(os.path.join(folder, 'filler'))
            not_ready(server, 'the database has no space left on its disk')
            os.unlink(os.path.join(folder, 'filler'))
            ready(server)
            assert calls.GetJob(job_id=accepted).job.kind == 'k'
            assert calls.code('Enqueue', jobs=[pb.NewJob(kind='k')])[0] == 'OK'


def test_no_database():
    """a server whose database takes no connections says so"""
    with Database() as db, Served(db) as server:
        ready(server)
        psql(SERVER_DB, f'ALTER DATABASE {db.name} ALLOW_CONNECTIONS false')
        psql(SERVER_DB, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{db.name}'")
        not_ready(server, 'there is no connection to the database')
        psql(SERVER_DB, f'ALTER DATABASE {db.name} ALLOW_CONNECTIONS true')
        ready(server)


if __name__ == '__main__':
    run(globals())
