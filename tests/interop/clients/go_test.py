"""A worker in Go (go/worker.go, on Debian's grpc-go) and a real server. usage: go_test.py ROOT BUILD"""

import os
import shutil
import signal
import subprocess
import sys

import tap

ROOT, BUILD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
GOCODE = os.environ.get('GOPATH') or '/usr/share/gocode'  # where Debian has Go's packages

for program in ('go', 'protoc', 'protoc-gen-go'):
    if not shutil.which(program):
        tap.skip_all(f'{program} is not installed')
for package in ('google.golang.org/grpc', 'google.golang.org/protobuf'):
    if not os.path.isdir(os.path.join(GOCODE, 'src', package)):
        tap.skip_all(f'the Go package {package} is not installed')
# Its version 1.3, which Debian's gRPC takes as well, cannot read what protoc-gen-go makes.
if not os.path.exists(os.path.join(GOCODE, 'src', 'github.com/golang/protobuf', 'proto', 'registry.go')):
    tap.skip_all('the Go package github.com/golang/protobuf is not installed, or too old')
try:
    import grpc  # noqa: F401
except ImportError:
    tap.skip_all('python3-grpcio is not installed')

sys.path.insert(0, os.path.join(ROOT, 'clients', 'python'))

import pawl
from live import TIMEOUT_S, Stage, until


def build():
    """The worker, with the messages of the contract as they are now."""
    place = os.path.join(BUILD, 'clients-go')
    source = os.path.join(place, 'src', 'pawltest')
    os.makedirs(source, exist_ok=True)
    subprocess.run(
        [
            'protoc',
            '-I',
            os.path.join(ROOT, 'proto'),
            f'--go_out={place}/src',
            '--go_opt=Mpawl/v1/pawl.proto=pawltest/pawlv1',
            'pawl/v1/pawl.proto',
        ],
        check=True,
    )
    shutil.copy(os.path.join(ROOT, 'tests', 'interop', 'clients', 'go', 'worker.go'), source)
    env = {
        **os.environ,
        'GOPATH': f'{place}:{GOCODE}',
        'GO111MODULE': 'off',
        'GOFLAGS': '',
        'GOCACHE': os.path.join(place, 'cache'),
        'CGO_ENABLED': '0',
    }
    done = subprocess.run(
        ['go', 'build', '-o', os.path.join(place, 'worker'), 'pawltest'],
        env=env,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return os.path.join(place, 'worker')


def test_go():
    """a worker in Go gets jobs and reports them, over a restart of the server, and ends in good order"""
    program = build()
    with Stage() as stage:
        worker = subprocess.Popen([program, stage.address], stdout=subprocess.PIPE, text=True)
        try:
            with pawl.Client(stage.address, timeout=TIMEOUT_S) as c:
                jobs = [a.id for a in c.enqueue_many([pawl.NewJob('double', {'n': n}) for n in range(500)])]
                until(
                    lambda: int(stage.database.sql("SELECT count(*) FROM pawl.jobs WHERE state = 'done'")) > 50,
                    'some are done',
                )
                stage.serve.restart()
                assert [c.result(job, TIMEOUT_S) for job in jobs] == [2 * n for n in range(500)]
                assert c.wait(c.enqueue('double', 'no number'), TIMEOUT_S).state == 'failed'
                assert stage.database.sql('SELECT max(attempt) FROM pawl.jobs') == '1'
            worker.send_signal(signal.SIGTERM)
            assert worker.communicate(timeout=TIMEOUT_S)[0] == 'end\n' and worker.returncode == 0
        finally:
            if worker.poll() is None:
                worker.kill()
            worker.wait()
            worker.stdout.close()


tap.run(globals())
