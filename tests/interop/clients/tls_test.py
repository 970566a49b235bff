"""Both clients with TLS, certificates of their own, and tokens. usage: tls_test.py ROOT BUILD"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import tap

try:
    import grpc  # noqa: F401
except ImportError:
    tap.skip_all('python3-grpcio is not installed')
if not shutil.which('openssl'):
    tap.skip_all('openssl is not installed')

ROOT, BUILD = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, 'clients', 'python'))

import node
import pawl
from live import TIMEOUT_S, Database, Serve, patiently


def openssl(*args):
    subprocess.run(['openssl', *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Stage:
    """An authority, a server and a client certificate of it, another authority that nobody trusts, and a server that
    asks for all that."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get('PAWL_TEST_TMP'))
        for name in ('ca', 'other'):
            openssl(
                'req',
                '-x509',
                '-newkey',
                'ec',
                '-pkeyopt',
                'ec_paramgen_curve:P-256',
                '-nodes',
                '-days',
                '2',
                '-subj',
                f'/CN={name}',
                '-keyout',
                self.file(name + '.key'),
                '-out',
                self.file(name + '.pem'),
            )
        with open(self.file('ext'), 'w', encoding='ascii') as f:
            f.write('subjectAltName=DNS:localhost,DNS:jobs.example\n')
        for name in ('server', 'client'):
            openssl(
                'req',
                '-newkey',
                'ec',
                '-pkeyopt',
                'ec_paramgen_curve:P-256',
                '-nodes',
                '-subj',
                f'/CN={name}',
                '-keyout',
                self.file(name + '.key'),
                '-out',
                self.file(name + '.csr'),
            )
            openssl(
                'x509',
                '-req',
                '-in',
                self.file(name + '.csr'),
                '-CA',
                self.file('ca.pem'),
                '-CAkey',
                self.file('ca.key'),
                '-days',
                '2',
                '-extfile',
                self.file('ext'),
                '-set_serial',
                '1',
                '-out',
                self.file(name + '.pem'),
            )
        self.database = Database()
        self.serve = Serve(
            self.database,
            '--tls-cert',
            self.file('server.pem'),
            '--tls-key',
            self.file('server.key'),
            '--tls-ca',
            self.file('ca.pem'),
            '--tokens',
            'required',
        )
        self.address = self.serve.address
        return self

    def __exit__(self, *_):
        self.serve.process.kill()
        self.serve.process.wait()
        self.serve.process.stdout.close()
        self.database.close()
        shutil.rmtree(self.folder)

    def file(self, name):
        return os.path.join(self.folder, name)

    def token(self, name, *scopes):
        options = [option for scope in scopes for option in ('--scope', scope)]
        out = subprocess.run(
            [os.environ['PAWL_TEST_BIN'], 'token', 'create', name, *options, '-o', 'json'],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.DEVNULL,
            env={**os.environ, 'PAWL_DATABASE_URL': self.database.url},
        ).stdout
        return json.loads(out)['token']

    def tls(self, **more):
        return pawl.TLS(
            **{
                'ca': self.file('ca.pem'),
                'cert': self.file('client.pem'),
                'key': self.file('client.key'),
                'server_name': 'jobs.example',
                **more,
            }
        )


def fails(error, timeout=TIMEOUT_S, **options):
    with pawl.Client(STAGE.address, timeout=timeout, **options) as c:
        try:
            c.enqueue('x')
        except error as e:
            return e
    raise AssertionError(f'no {error.__name__}')


def test_python():
    """the Python client works with TLS, a certificate and a token, also one that a function gives"""
    token, asked = STAGE.token('all', 'work', 'enqueue', 'read'), []

    def give():
        asked.append(1)
        return token

    w = pawl.Worker(STAGE.address, token=give, tls=STAGE.tls())
    w.handle('secret', lambda job: 'seen')
    with w, pawl.Client(STAGE.address, token=token, tls=STAGE.tls()) as c:
        assert c.result(c.enqueue('secret'), TIMEOUT_S) == 'seen'
    assert asked


def test_python_refused():
    """who has no token, the wrong one, no certificate or trusts another authority is refused, and a worker needs a
    token for work"""
    token = STAGE.token('producer', 'enqueue')
    assert fails(pawl.AuthError, tls=STAGE.tls()).code == 'UNAUTHENTICATED'
    assert fails(pawl.AuthError, tls=STAGE.tls(), token='wrong').code == 'UNAUTHENTICATED'
    fails(pawl.UnavailableError, 2, tls=STAGE.tls(cert=None, key=None), token=token)

    def distrusted(seconds):
        distrust = fails(pawl.UnavailableError, seconds, tls=STAGE.tls(ca=STAGE.file('other.pem')), token=token)
        assert distrust.code == 'UNAVAILABLE', distrust  # and says what was wrong, not only that time was over

    patiently(distrusted, 2, 6, 20)
    fails(pawl.UnavailableError, 2, token=token)
    with pawl.Client(STAGE.address, token=token, tls=STAGE.tls()) as c:
        assert c.enqueue('x') > 0
    w = pawl.Worker(STAGE.address, token=token, tls=STAGE.tls())
    w.handle('x', len)
    try:
        w.run(handle_signals=False)
    except pawl.AuthError as e:
        assert e.code == 'PERMISSION_DENIED'
    else:
        raise AssertionError('it was taken on')


def test_node():
    """so does the client for Node.js"""
    if not shutil.which('node') or not shutil.which('npm'):
        return 'node and npm are not installed'
    try:
        folder = node.place(ROOT, BUILD)
    except node.Unavailable as e:
        return str(e)
    done = subprocess.run(
        [
            'node',
            os.path.join(folder, 'tls.mjs'),
            STAGE.address,
            STAGE.folder,
            STAGE.token('node', 'work', 'enqueue', 'read'),
            STAGE.token('node-producer', 'enqueue'),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return None


STAGE = Stage()
with STAGE:
    tap.run(globals())
