//! Recognises secrets by their first bytes: private keys and service accounts with any name, and settings files that
//! often hold secrets.

use tool_core::redaction;

use super::path;

/// Bytes of a file that are examined. The `"type"` of a service account is in its first lines.
pub(super) const HEAD_BYTES: usize = 512;

/// Bytes that are examined if the name suggests several certificates with a key.
pub(super) const BUNDLE_BYTES: usize = 64 * 1024;

/// Bytes at the beginning of the file that [`find_reason`] needs.
pub(super) fn bytes_wanted(path: &str) -> usize {
    let (_, name) = path::split_path(path);
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let is_bundle = ["pem", "crt", "cer", "cert", "chain", "bundle"]
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known));
    if is_bundle || holds_settings(name) {
        BUNDLE_BYTES
    } else {
        HEAD_BYTES
    }
}

/// Settings files that may hold a secret: those that do are hidden.
const SETTINGS: [&str; 8] = [
    ".envrc",
    ".dev.vars",
    "local.settings.json",
    "nuget.config",
    "settings.xml",
    ".yarnrc.yml",
    "pip.conf",
    "secrets.toml",
];

fn holds_settings(name: &str) -> bool {
    SETTINGS.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Reason why the file with this path and beginning is hidden.
pub(super) fn find_reason(path: &str, head: &[u8]) -> Option<&'static str> {
    let (_, name) = path::split_path(path);
    if holds_settings(name) && redaction::holds_secret(&String::from_utf8_lossy(head).replace('\0', "")) {
        return Some("holds a secret");
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    match head.first()? {
        b'-' | b'P' | b'B' | b'A' | b'#' | b's' | b'i' if is_key(head) => Some("is a private key"),
        b'{' if is_service_account(head) => Some("holds the credentials of a service account"),
        _ => None,
    }
}

/// PEM, OpenSSH, SSH2, PGP, PuTTY and age. A PEM file may begin with a certificate or with attributes of a bag.
fn is_key(head: &[u8]) -> bool {
    if head.starts_with(b"PuTTY-User-Key-File-") || head.starts_with(b"AGE-SECRET-KEY-") {
        return true;
    }
    let mut lines = head.split(|&byte| byte == b'\n');
    if head.starts_with(b"#") {
        return lines.any(|line| line.starts_with(b"AGE-SECRET-KEY-"));
    }
    let is_pem = head.starts_with(b"--")
        || [&b"Bag Attributes"[..], b"subject", b"issuer"]
            .iter()
            .any(|start| head.starts_with(start));
    is_pem && lines.any(is_key_line)
}

/// `-----BEGIN RSA PRIVATE KEY-----`, `---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----` and variants in between.
fn is_key_line(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.starts_with(b"----")
        && contains_bytes(line, b"BEGIN ")
        && (contains_bytes(line, b"PRIVATE KEY-----")
            || contains_bytes(line, b"PRIVATE KEY ----")
            || contains_bytes(line, b"PRIVATE KEY BLOCK"))
}

/// `"type": "service_account"` with any spaces.
fn is_service_account(head: &[u8]) -> bool {
    let mut rest = head;
    while let Some(at) = find_bytes(rest, b"\"type\"") {
        rest = &rest[at + b"\"type\"".len()..];
        let value = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        if value.is_some_and(|value| value.starts_with(b"\"service_account\"")) {
            return true;
        }
    }
    false
}

fn contains_bytes(text: &[u8], wanted: &[u8]) -> bool {
    find_bytes(text, wanted).is_some()
}

fn find_bytes(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// True for a name that suggests a secret: a list then reads the file's beginning before it shows the file.
pub(super) fn is_suspect(name: &str) -> bool {
    if holds_settings(name) {
        return true;
    }
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let is_plain = [
        "", "pem", "crt", "cer", "cert", "asc", "gpg", "txt", "json", "der", "pk", "priv", "private",
    ]
    .iter()
    .any(|known| extension.eq_ignore_ascii_case(known));
    let speaks = [
        "key", "secret", "cred", "cert", "service", "account", "ssh", "rsa", "ed25519", "private", "deploy",
    ];
    let stem = stem.to_ascii_lowercase();
    extension.eq_ignore_ascii_case("pem") || is_plain && speaks.iter().any(|word| stem.contains(word))
}
