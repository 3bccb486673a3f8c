//! Tells random text from written text: words, names, paths, numbers, examples.
//!
//! The measure is the share of neighbouring characters that are usual in writing: letter pairs that are common in
//! English and in identifiers, and digits next to digits. In words about nine tenths of the pairs are usual, in random
//! letters a third.

use std::borrow::Cow;

/// For each letter, the letters that follow it in 88 % of the pairs of identifiers and prose (bit 0 is `a`). Counted over
/// the words of this repository and of Python's standard library.
const PAIRS: [u32; 26] = [
    0x013e_b94e,
    0x0016_4911,
    0x001e_4d95,
    0x0016_4919,
    0x00ef_b97d,
    0x0012_4931,
    0x0006_2190,
    0x0008_4111,
    0x022e_f87f,
    0x0000_0000,
    0x0000_0010,
    0x011c_4919,
    0x0004_d111,
    0x003c_617d,
    0x007e_f96f,
    0x001e_c991,
    0x0010_0000,
    0x011e_f95d,
    0x011c_c995,
    0x011e_c9b5,
    0x000e_b917,
    0x0000_0111,
    0x0000_0111,
    0x0008_8000,
    0x0000_8000,
    0x0000_0010,
];

/// Words that documents use in place of a key.
const SAMPLES: [&str; 14] = [
    "example",
    "sample",
    "dummy",
    "placeholder",
    "changeme",
    "change-me",
    "change_me",
    "your_",
    "your-",
    "xxxxxx",
    "not-a-",
    "redacted",
    "insert",
    "replace",
];

/// False for a placeholder that documents use in place of a key.
pub(super) fn is_no_sample(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let counts = ["0123456789", "1234567890", "bcdefghij"];
    !SAMPLES.iter().chain(&counts).any(|sample| lower.contains(sample)) && !has_run(text)
}

/// True if one character occurs eight times in a row and makes up a third of the text: `AAAAAAAA`, `00000000`,
/// `********`.
fn has_run(text: &str) -> bool {
    let length = (text.len() / 3).max(8);
    text.as_bytes()
        .windows(length)
        .any(|window| window.iter().all(|byte| *byte == window[0]))
}

/// Share of the neighbouring characters that occur in writing, from 0 to 1. Separators of words do not count.
pub(super) fn written_share(text: &str) -> f64 {
    let (mut written, mut all) = (0_u32, 0_u32);
    let plain = without_escapes(text);
    for pair in plain.as_bytes().windows(2) {
        if pair.iter().any(|byte| b" _-./\\:,".contains(byte)) {
            continue;
        }
        all += 1;
        written += u32::from(is_written(pair[0], pair[1]));
    }
    match all {
        0 => 1.0,
        _ => f64::from(written) / f64::from(all),
    }
}

/// The text without escapes for other characters, such as `%20`.
fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_escape = part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit);
        plain.push_str(if is_escape { " " } else { "%" });
        plain.push_str(if is_escape { &part[2..] } else { part });
    }
    Cow::Owned(plain)
}

fn is_written(a: u8, b: u8) -> bool {
    if a.is_ascii_digit() && b.is_ascii_digit() {
        return true;
    }
    // In prose, a capital within a word occurs only where the next word begins.
    if !a.is_ascii_alphabetic() || !b.is_ascii_alphabetic() {
        return false;
    }
    if a.is_ascii_lowercase() && b.is_ascii_uppercase() {
        return false;
    }
    let (a, b) = (a.to_ascii_lowercase() - b'a', b.to_ascii_lowercase() - b'a');
    PAIRS[usize::from(a)] >> b & 1 == 1 || b == a + 1
}

/// True for a value that looks random: no words, and not a public identifier.
pub(super) fn is_random(text: &str) -> bool {
    if !text.is_ascii() || !is_no_sample(text) || is_uuid(text) {
        return false;
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let letters = text.bytes().filter(u8::is_ascii_alphabetic).count();
    if is_hexadecimal(text) {
        return digits >= 2 && letters >= 2 && entropy_per_char(text) >= 2.6;
    }
    let share = written_share(text);
    match digits {
        // Letters alone: there must be enough of them to tell.
        0 => (letters >= 16 && share < 0.42 || letters >= 10 && share < 0.25) && entropy_per_char(text) >= 2.9,
        _ => letters >= 2 && share < 0.55 && entropy_per_char(text) >= 2.9_f64.min((text.len() as f64).log2() - 0.5),
    }
}

/// True for a key of several parts if one part looks random. The separators are words.
pub(super) fn has_random(text: &str) -> bool {
    const PART_BYTES_MIN: usize = 15;
    let mut parts = text
        .split(['_', '-', '.', ':', '|', '~'])
        .filter(|part| part.len() >= PART_BYTES_MIN);
    let is_marked = || {
        let (unmarked, last) = (text.get(4..), text.len().checked_sub(36).and_then(|at| text.get(at..)));
        unmarked.is_some_and(is_hexadecimal) || text.len() > 36 && last.is_some_and(is_uuid)
    };
    is_random(text) || is_no_sample(text) && !is_uuid(text) && (parts.any(is_random) || is_marked())
}

/// A stricter [`is_random`] for values of 40 characters, a length that digests and paths also have.
pub(super) fn is_random_mixed(text: &str) -> bool {
    let has = |of: fn(&u8) -> bool| text.bytes().filter(of).count() >= 2;
    is_random(text) && has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase)
}

/// True for a password that looks random. A short one needs three kinds of characters.
pub(super) fn is_passphrase(text: &str) -> bool {
    if !text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') || !is_no_sample(text) {
        return false;
    }
    if is_uuid(text) {
        return true;
    }
    let has = |of: fn(&u8) -> bool| usize::from(text.bytes().any(|byte| of(&byte)));
    let kinds = has(u8::is_ascii_digit)
        + has(u8::is_ascii_uppercase)
        + has(u8::is_ascii_lowercase)
        + has(u8::is_ascii_punctuation);
    match text.len() {
        0..8 => false,
        8..12 => kinds >= 3 && written_share(text) < 0.4 && entropy_per_char(text) >= 2.6,
        _ => is_random(text),
    }
}

/// True for the password of a URL or of a command. Samples, templates, ports and common words such as `admin` do not
/// count.
pub(super) fn is_password(text: &str) -> bool {
    const COMMON: [&str; 16] = [
        "pass", "password", "passwd", "pwd", "pw", "secret", "token", "user", "username", "admin", "root", "test",
        "guest", "postgres", "mysql", "redis",
    ];
    let lower = text.to_ascii_lowercase();
    let is_template =
        text.contains(['$', '{', '}', '<', '>', '*', '(', ')', '[', ']', ',', '|']) || text.starts_with('%');
    let is_port = text.bytes().all(|byte| byte.is_ascii_digit()) && text.len() <= 5;
    !is_template && !is_port && !COMMON.contains(&lower.as_str()) && is_no_sample(text)
}

pub(super) fn is_hexadecimal(text: &str) -> bool {
    text.len() >= 15 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `123e4567-e89b-12d3-a456-426614174000`.
pub(super) fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    lengths == [8, 4, 4, 4, 12] && parts.iter().all(is_hex)
}

/// Bits a character, after Shannon.
pub(super) fn entropy_per_char(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let total = text.len() as f64;
    let shares = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| f64::from(*count) / total);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_is_counted_in_bits_a_character() {
        let told = ["aaaa", "aabb", "abcd", "abcdefgh"].map(entropy_per_char);
        assert_eq!(told, [0.0, 1.0, 2.0, 3.0]);
    }

    #[test]
    fn words_names_and_paths_are_no_random_text() {
        for written in [
            "correct horse battery staple",
            "x-amz-security-token-v4-sha256",
            "django.contrib.auth.tokens.PasswordResetTokenGenerator",
            "abcdefghijklmnopqrstuvwxyz0123",
            "/etc/ssl/private/server-2024.key",
            "getServiceAccountToken",
            "SESSION_TOKEN_LENGTH_256",
            "2024-01-31T12:00:00Z",
            "j%3A%7B%22name%22%3A%22tobi%22%7D",
        ] {
            assert!(!is_random(written), "{written}: {}", written_share(written));
        }
        for drawn in [
            "k3Q7z9V1b5X2w8",
            "k3q7z9v1b5x2w8rt",
            "zkqvxwjmtrbgfhdpzs",
            "5f0e9a8b7c6d1e2f3a4b",
        ] {
            assert!(is_random(drawn), "{drawn}: {}", written_share(drawn));
        }
    }

    #[test]
    fn a_short_password_is_of_three_kinds_of_characters() {
        for (text, expected) in [
            ("k3Q!z9V1", true),
            ("k3Qz9V1b", true),
            ("k3Qz9V1", false),
            ("k3qz9v1b", false),
            ("password1!", false),
            ("123e4567-e89b-12d3-a456-426614174000", true),
            ("k3Q7z9V1b5X2w8é", false),
        ] {
            assert_eq!(is_passphrase(text), expected, "{text}");
        }
    }
}
