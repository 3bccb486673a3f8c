"""Signs the list of checksums by a key of the user."""

import base64
import hashlib
import json
import subprocess


def sign(path, key):
    """Signs a file in the two forms of `cosign verify-blob --key`: the signature alone, and a Sigstore bundle.

    Versions of cosign before 2.4 read only the first, and newer ones are about to read only the second.
    """
    signature = openssl("dgst", "-sha256", "-sign", key, path)
    public = openssl("pkey", "-in", key, "-pubout", "-outform", "DER")
    bundle = {
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": base64_text(hashlib.sha256(public).digest())}},
        "messageSignature": {
            "messageDigest": {
                "algorithm": "SHA2_256",
                "digest": base64_text(hashlib.sha256(path.read_bytes()).digest()),
            },
            "signature": base64_text(signature),
        },
    }
    path.with_name(path.name + ".sig").write_text(base64_text(signature) + "\n")
    path.with_name(path.name + ".sigstore.json").write_text(json.dumps(bundle, indent=2) + "\n")


def base64_text(data):
    return base64.b64encode(data).decode()


def openssl(*arguments):
    return subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.PIPE).stdout
