"""TLS between the ranks of one launch: each side has the certificate that only the launch's secret can make.

The secret gives a private key, and the key a certificate that is the same, to the last byte, on every rank. Each
side shows it and accepts no other, so that only those who know the secret can connect, read or write.
"""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from datetime import UTC, datetime
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "muster launch")])
_VALID = datetime(2000, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
"""For ever: the key ends with its launch, and hosts' clocks may be wrong."""


def server_context(secret: bytes) -> ssl.SSLContext:
    """Return the side that is connected to."""
    return _context(ssl.PROTOCOL_TLS_SERVER, secret)


@lru_cache(maxsize=1)
def client_context(secret: bytes) -> ssl.SSLContext:
    """Return the side that connects; made once, for a key costs some 50 ms, so that secrets are hard to guess."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, secret)


def _context(protocol: int, secret: bytes) -> ssl.SSLContext:
    key = Ed25519PrivateKey.from_private_bytes(
        hashlib.scrypt(secret, salt=b"muster launch", n=2**14, r=8, p=1, dklen=32)
    )
    builder = x509.CertificateBuilder().subject_name(_NAME).issuer_name(_NAME).serial_number(1)
    builder = builder.not_valid_before(_VALID[0]).not_valid_after(_VALID[1]).public_key(key.public_key())
    certificate = builder.sign(key, None).public_bytes(Encoding.PEM)
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=certificate.decode("ascii"))
    with tempfile.NamedTemporaryFile() as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
        file.flush()
        context.load_cert_chain(file.name)
    return context
