"""Follows a quick start to the letter (tests/support/walk.py), with a real server. usage: guide_test.py ROOT BUILD
python | node | any"""

import os
import shutil
import subprocess
import sys
import tempfile

import tap

ROOT, BUILD, WHICH = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]

if WHICH == 'node':
    import node

    try:
        folder_of_packages = node.place(ROOT, BUILD)
    except node.Unavailable as e:
        tap.skip_all(str(e))
else:
    try:
        import grpc  # noqa: F401
    except ImportError:
        tap.skip_all('python3-grpcio is not installed')

from live import Stage, until

GUIDES = {
    'python': 'clients/python/README.md',
    'node': 'clients/node/README.md',
    'any': 'docs/guides/workers-in-any-language.md',
}


def test_guide():
    """the quick start does what it says"""
    with Stage() as stage, tempfile.TemporaryDirectory(dir=os.environ.get('PAWL_TEST_TMP')) as folder:
        # python3 in the guide is the one that runs this test; pawl is the one that was built.
        os.mkdir(os.path.join(folder, 'bin'))
        os.symlink(sys.executable, os.path.join(folder, 'bin', 'python3'))
        env = {
            **os.environ,
            'PAWL_SERVER': stage.address,
            'PAWL_DATABASE_URL': stage.database.url,
            'PROTO': os.path.join(ROOT, 'proto'),
            'PATH': f'{folder}/bin:{os.path.dirname(os.environ["PAWL_TEST_BIN"])}:{os.environ["PATH"]}',
        }
        if WHICH == 'python':
            env['PYTHONPATH'] = os.path.join(ROOT, 'clients', 'python')
        if WHICH == 'node':
            os.symlink(os.path.join(folder_of_packages, 'node_modules'), os.path.join(folder, 'node_modules'))
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, 'tests', 'support', 'walk.py'), os.path.join(ROOT, GUIDES[WHICH])],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def worker_of_guide():
    with open(os.path.join(ROOT, GUIDES['any']), encoding='utf-8') as f:
        return f.read().split("cat >worker.py <<'EOF'\n")[1].split('\nEOF\n')[0] + '\n'


def test_restart():
    """the worker of the guide survives a restart of the server: nothing is lost, nothing runs twice"""
    if not shutil.which('protoc'):
        return 'protoc is not installed'
    with Stage() as stage, tempfile.TemporaryDirectory(dir=os.environ.get('PAWL_TEST_TMP')) as folder:
        subprocess.run(
            ['protoc', '-I', os.path.join(ROOT, 'proto'), f'--python_out={folder}', 'pawl/v1/pawl.proto'], check=True
        )
        with open(os.path.join(folder, 'worker.py'), 'w', encoding='utf-8') as f:
            f.write(worker_of_guide())
        stage.database.sql(
            """SELECT pawl.enqueue('double', jsonb_build_object('n', n)) FROM generate_series(1, 300) AS n"""
        )
        worker = subprocess.Popen(
            [sys.executable, 'worker.py'],
            cwd=folder,
            env={**os.environ, 'PAWL_SERVER': stage.address},
            stdin=subprocess.DEVNULL,
        )
        try:
            until(
                lambda: int(stage.database.sql("SELECT count(*) FROM pawl.jobs WHERE state = 'done'")) > 20,
                'some are done',
            )
            stage.serve.restart()
            until(
                lambda: stage.database.sql("SELECT count(*) FROM pawl.jobs WHERE state = 'done'") == '300',
                'all are done',
            )
            assert stage.database.sql('SELECT max(attempt) FROM pawl.jobs') == '1'
            assert stage.database.sql("SELECT sum(convert_from(result, 'UTF8')::int) FROM pawl.history") == str(
                300 * 301
            )
        finally:
            worker.kill()
            worker.wait()
    return None


tap.run(globals(), ['test_guide', 'test_restart'] if WHICH == 'any' else ['test_guide'])
