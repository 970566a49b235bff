"""authority: certificates made for a test."""

import subprocess


def openssl(*args):
    subprocess.run(['openssl', *args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Authority:
    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.key, self.certificate = f'{folder}/{name}.key', f'{folder}/{name}.crt'
        openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
                '-subj', f'/CN={name}', '-keyout', self.key, '-out', self.certificate)

    def issue(self, name, subject, serial=None):
        key, request, certificate = (f'{self.folder}/{name}.{end}' for end in ('key', 'csr', 'crt'))
        openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', subject,
                '-keyout', key, '-out', request)
        with open(f'{self.folder}/ext', 'w', encoding='ascii') as f:
            f.write('subjectAltName=DNS:localhost,IP:127.0.0.1\n')
        openssl('x509', '-req', '-in', request, '-CA', self.certificate, '-CAkey', self.key, '-days', '2',
                '-extfile', f'{self.folder}/ext', '-set_serial', str(serial or 1), '-out', certificate)
        return certificate, key
