"""The clients have the wire contract that proto/ has, and their packages hold what they should. usage:
contract_test.py ROOT"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

import tap

ROOT = os.path.abspath(sys.argv[1])
PROTO = os.path.join(ROOT, 'proto')
FILE = 'pawl/v1/pawl.proto'
HINT = 'run clients/update-contract'


def read(*path):
    with open(os.path.join(*path), 'rb') as f:
        return f.read()


def test_node():
    """the client for Node.js has the contract of proto/"""
    assert read(ROOT, 'clients', 'node', 'proto', FILE) == read(PROTO, FILE), HINT


def test_python():
    """the messages of the Python client are made of the contract of proto/"""
    if not shutil.which('protoc'):
        return 'protoc is not installed'
    try:
        from google.protobuf import descriptor_pb2
    except ImportError:
        return 'python3-protobuf is not installed'
    sys.path.insert(0, os.path.join(ROOT, 'clients', 'python'))
    from pawl.v1 import pawl_pb2

    with tempfile.TemporaryDirectory() as folder:
        made = os.path.join(folder, 'set')
        subprocess.run(['protoc', '-I', PROTO, f'--descriptor_set_out={made}', FILE], check=True)
        wanted = descriptor_pb2.FileDescriptorSet.FromString(read(made)).file[0]
    got = descriptor_pb2.FileDescriptorProto()
    pawl_pb2.DESCRIPTOR.CopyToProto(got)
    for message in [
        *wanted.message_type,
        *got.message_type,
    ]:  # a name for JSON that a compiler may write down or leave out
        for field in message.field:
            field.ClearField('json_name')
    assert got == wanted, HINT
    stub = read(ROOT, 'clients', 'python', 'pawl', 'v1', 'pawl_pb2.pyi').decode()
    for message in wanted.message_type:
        assert f'class {message.name}(' in stub, f'{message.name} is missing in pawl_pb2.pyi: {HINT}'
        for field in message.field:
            assert (
                f'{field.name.upper()}_FIELD_NUMBER' in stub
            ), f'{message.name}.{field.name} is missing in pawl_pb2.pyi: {HINT}'


def test_new_job():
    """what the clients know about a new job is made of the contract"""
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'clients', 'make-new-job.py'), '--check'],
                          stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_wheel():
    """a wheel of the Python client holds its modules, messages and types"""
    for module in ('pip', 'setuptools', 'wheel'):
        if importlib.util.find_spec(module) is None:
            return f'{module} is not installed'
    with tempfile.TemporaryDirectory() as folder:
        source = shutil.copytree(os.path.join(ROOT, 'clients', 'python'), os.path.join(folder, 'source'))
        subprocess.run(
            [
                sys.executable,
                '-m',
                'pip',
                'wheel',
                '--quiet',
                '--no-deps',
                '--no-index',
                '--no-build-isolation',
                '--wheel-dir',
                folder,
                source,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, 'PIP_DISABLE_PIP_VERSION_CHECK': '1'},
        )
        name = next(n for n in os.listdir(folder) if n.endswith('.whl'))
        with zipfile.ZipFile(os.path.join(folder, name)) as z:
            names = set(z.namelist())
    here = os.path.join(ROOT, 'clients', 'python', 'pawl')
    wanted = {f'pawl/{n}' for n in os.listdir(here) if n.endswith('.py')} | {
        'pawl/py.typed',
        'pawl/v1/pawl_pb2.py',
        'pawl/v1/pawl_pb2.pyi',
    }
    assert wanted <= names, wanted - names


def test_types():
    """the Python client is typed throughout, as mypy sees it"""
    if not shutil.which('mypy'):
        return 'mypy is not installed'
    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, 'mypy.ini')
        with open(config, 'w', encoding='ascii') as f:
            f.write(
                '[mypy]\nstrict = True\n[mypy-pawl.v1.*]\nignore_errors = True\n[mypy-grpc.*]\nignore_missing_imports = True\n'
                '[mypy-google.*]\nignore_missing_imports = True\n'
            )
        done = subprocess.run(
            ['mypy', '--config-file', config, '--cache-dir', folder, '-p', 'pawl'],
            cwd=os.path.join(ROOT, 'clients', 'python'),
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stdout


tap.run(globals(), sys.argv[2:])
